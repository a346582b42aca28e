"""Learned schedulers: encoding, network, training, checkpoints. The only room that knows torch."""
