# For a 64-bit ARM machine, such as a Jetson, on another one: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake
# The compiler is Debian's package g++-aarch64-linux-gnu. The kernels of a GPU are compiled already; of CUDA only the
# header is read, which is the same for every machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
