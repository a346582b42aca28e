"""Where graphs come from: synthetic generators, Keras applications, JSON files and the committed catalogue."""
