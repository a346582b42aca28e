"""The measuring process: how it is started and watched, the engines in it, and what it leaves behind."""
