"""What makes poller a program that lives: options, an orderly end, words for people."""
