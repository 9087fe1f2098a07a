#!/bin/sh
# Makes a trace of the keys on its input, one a line, each of which becomes a number.
awk 'BEGIN { print "silica-trace 1" } { if (!($0 in seen)) seen[$0] = count++; print "0 get " seen[$0] }'
