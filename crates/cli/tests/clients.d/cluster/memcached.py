"""Stores and reads in memcached's text protocol: memcached.py PORT."""

import socket
import sys

stream = socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rwb")


def line():
    return stream.readline().rstrip(b"\r\n")


for n in range(500):
    value = f"value{n}".encode()
    stream.write(b"set m%d 7 0 %d\r\n%s\r\n" % (n, len(value), value))
    stream.flush()
    assert line() == b"STORED"
for n in range(500):
    stream.write(b"get m%d\r\n" % n)
    stream.flush()
    value = f"value{n}".encode()
    assert line() == b"VALUE m%d 7 %d" % (n, len(value))
    assert line() == value and line() == b"END"
print("content")
