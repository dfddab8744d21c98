#!/bin/sh
# Prints the number of lines of a file.
grep -c "" "$1"
