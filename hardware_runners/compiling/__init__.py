"""One run of `edgetpu_compiler`: process, printed facts, outcome; `hardware_runners.compiler` compiles pipelines."""
