"""From a TFLite file and a schedule to one file a stage."""
