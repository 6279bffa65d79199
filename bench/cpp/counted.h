// Marks the calls of the driver that driver_calls.cpp counts, and reads what this process holds of its memory.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

// Calls a function of the driver that takes nothing. Does nothing without a driver.
inline void mark(const char* name) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void* const found = driver != nullptr ? dlsym(driver, name) : nullptr;
    if (found != nullptr) reinterpret_cast<int (*)()>(found)();
}

// Counts the driver's calls of `work`.
template <typename Work>
void counted(Work work) {
    mark("cuProfilerStart");
    work();
    mark("cuProfilerStop");
}

inline long resident_bytes() {
    long pages = 0, resident = 0;
    FILE* const file = fopen("/proc/self/statm", "r");
    if (file == nullptr || fscanf(file, "%ld %ld", &pages, &resident) != 2) return -1;
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

// The device's free memory, or -1 without a driver.
inline long device_free_bytes() {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void* const found = driver != nullptr ? dlsym(driver, "cuMemGetInfo_v2") : nullptr;
    size_t free = 0, total = 0;
    if (found == nullptr || reinterpret_cast<int (*)(size_t*, size_t*)>(found)(&free, &total) != 0) return -1;
    return static_cast<long>(free);
}
