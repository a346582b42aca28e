"""One schema object a table, and how a table's parts are staged, published and read."""
