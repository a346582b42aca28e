"""Activation memory inside one device: what an order of the ops needs, and the order that needs least."""
