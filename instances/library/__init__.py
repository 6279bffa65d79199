"""The deployment unit: kernels as a library with a C interface, which needs neither Python nor anything else of ours.

`write` makes the folder. What is the same in every library lies here as it is written there: `qconv_kernels.h` is the
interface, `qconv_launcher.cpp` stands behind it, `device_*.h` is the role of the one device that a library is made for.
"""
