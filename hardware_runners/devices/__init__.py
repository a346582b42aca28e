"""What a host has to run segments on: the attached Edge TPUs, libedgetpu, and the TFLite interpreter."""
