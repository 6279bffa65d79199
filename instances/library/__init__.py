"""Export of winners as a library with a C interface, which needs neither Python nor any other part of qconv.

`write` writes the folder. The files that are the same in every library are in this folder: `qconv_kernels.h` is the
interface, `qconv_launcher.cpp` its implementation, and `device_*.h` the part for the vendor of the library.
"""
