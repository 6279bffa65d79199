// Suspended stacks, the switch between them, and what the sanitizers must be told about it. Private to
// cpu_runtime.cpp.
#pragma once

#include <cstddef>
#include <cstdio>

#if defined(QCONV_SANITIZE_ADDRESS)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
// Functions that instrumented code calls; the headers do not declare them.
extern "C" void __asan_loadN(const void* address, size_t bytes);
extern "C" void __asan_storeN(void* address, size_t bytes);
#elif defined(QCONV_SANITIZE_THREAD)
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_read_range(void* address, size_t bytes);
extern "C" void __tsan_write_range(void* address, size_t bytes);
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();
#endif
#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(QCONV_CPU_UCONTEXT)
#define QCONV_CPU_UCONTEXT 1  // may be defined on any CPU, to test this path
#endif
#if defined(QCONV_CPU_UCONTEXT)
#include <ucontext.h>
#elif defined(__x86_64__)
// Saves the callee-saved registers, switches stacks and restores them. Threads of a block mostly wait at the
// same call, so that `ret` usually matches the processor's return-address prediction despite the switch.
asm(R"(
.text
.p2align 4
.globl qconv_cpu_switch
.hidden qconv_cpu_switch
qconv_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
constexpr int kSavedWords = 8, kEntryWord = 6;  // six registers, the entry and a return address of 0
#else
asm(R"(
.text
.p2align 4
.globl qconv_cpu_switch
.hidden qconv_cpu_switch
qconv_cpu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
constexpr int kSavedWords = 20, kEntryWord = 11;
#endif
#if !defined(QCONV_CPU_UCONTEXT)
extern "C" void qconv_cpu_switch(void** save, void* load) __attribute__((visibility("hidden")));
#endif

namespace {

#if defined(QCONV_SANITIZE_ADDRESS) || defined(QCONV_SANITIZE_THREAD)
constexpr size_t kStackBytes = 256 << 10;  // instrumented frames are several times larger
#else
constexpr size_t kStackBytes = 64 << 10;
#endif
#if defined(QCONV_SANITIZE_THREAD)
// A stack shared by two threads would order them, so every thread has its own, and every block fresh memory.
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

// A suspended stack: a fiber's, or that of the OS thread that runs the fibers.
struct Context {
#if defined(QCONV_CPU_UCONTEXT)
    ucontext_t machine;
#else
    void* stack_pointer;
#endif
#if defined(QCONV_SANITIZE_ADDRESS)
    void* fake_stack;
    const void* stack_low;
    size_t stack_bytes;
#elif defined(QCONV_SANITIZE_THREAD)
    void* fiber;
#endif
};

#if defined(QCONV_SANITIZE_THREAD)
// For ThreadSanitizer: barriers and exchanges order threads, while taking turns on one OS thread does not.
inline void happens_before(void* address) { __tsan_release(address); }
inline void happens_after(void* address) { __tsan_acquire(address); }
inline void adopt_os_thread(Context& context) { context.fiber = __tsan_get_current_fiber(); }

inline void drop_fiber(Context& context) {
    if (context.fiber != nullptr) __tsan_destroy_fiber(context.fiber);
    context.fiber = nullptr;
}

// A fiber for accesses that no thread makes itself: asynchronous copies, and reports of the runtime's
// accesses. It is ordered after everything released to it, and before everything that acquires `done`.
struct Observer { void* fiber = nullptr; };
// Hides the runtime's own bookkeeping, whose allocations and calls of memcpy would be instrumented too.
struct Unobserved {
    Unobserved() { __tsan_ignore_thread_begin(); }
    ~Unobserved() { __tsan_ignore_thread_end(); }
};
inline void observe_read(const void* address, size_t bytes) {
    __tsan_read_range(const_cast<void*>(address), bytes);
}
inline void observe_write(void* address, size_t bytes) { __tsan_write_range(address, bytes); }
// Runs `act` on the observer's fiber, after everything released to it.
template <class Act>
void act_as(Observer& observer, const char* name, Act act) {
    void* const self = __tsan_get_current_fiber();
    if (observer.fiber == nullptr) {
        observer.fiber = __tsan_create_fiber(0);
        __tsan_set_fiber_name(observer.fiber, name);
    }
    __tsan_switch_to_fiber(observer.fiber, __tsan_switch_to_fiber_no_sync);
    happens_after(&observer);
    act();
    __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
}
inline void observe_copy(Observer& observer, void* done, const void* from, void* to, size_t bytes) {
    act_as(observer, "an asynchronous copy", [&] {
        if (from != nullptr) observe_read(from, bytes);
        observe_write(to, bytes);
        happens_before(done);
    });
}
inline void drop_observer(Observer& observer) {
    if (observer.fiber != nullptr) __tsan_destroy_fiber(observer.fiber);
}

// Called by the OS thread before the block runs: a fiber starts after everything that its creator has done. A
// fiber kept from the previous block is ordered after that block, which hides races between the two.
inline void renew_fiber(Context& context, bool keep, const unsigned block[3], unsigned thread) {
    if (!keep) drop_fiber(context);
    if (context.fiber == nullptr) context.fiber = __tsan_create_fiber(0);
    char name[64];  // shown in reports
    snprintf(name, sizeof name, "block (%u,%u,%u) thread %u", block[0], block[1], block[2], thread);
    __tsan_set_fiber_name(context.fiber, name);
}
#else
inline void happens_before(void*) {}
inline void happens_after(void*) {}
inline void adopt_os_thread(Context&) {}
inline void drop_fiber(Context&) {}
struct Observer {};
struct Unobserved { ~Unobserved() {} };
inline void observe_read(const void*, size_t) {}
inline void observe_write(void*, size_t) {}
template <class Act>
void act_as(Observer&, const char*, Act act) {
    act();
}
inline void observe_copy(Observer&, void*, const void*, void*, size_t) {}
inline void drop_observer(Observer&) {}
inline void renew_fiber(Context&, bool, const unsigned*, unsigned) {}
#endif

// Checks the addresses of a copy by the runtime, which is not instrumented itself.
inline void check_access(
    [[maybe_unused]] const void* from, [[maybe_unused]] void* to, [[maybe_unused]] size_t bytes) {
#if defined(QCONV_SANITIZE_ADDRESS)
    // A single byte is reported: for several, the sanitizer does not name the object next to the first wrong one.
    void* const source = const_cast<void*>(from);
    if (void* const wrong = source != nullptr ? __asan_region_is_poisoned(source, bytes) : nullptr)
        __asan_loadN(wrong, 1);
    if (void* const wrong = __asan_region_is_poisoned(to, bytes)) __asan_storeN(wrong, 1);
#endif
}

// Runs first on every fresh stack.
inline void enter_fiber(Context& os_thread) {
#if defined(QCONV_SANITIZE_ADDRESS)
    const void* low;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &low, &bytes);
    if (os_thread.stack_low == nullptr) {  // the stack we come from
        os_thread.stack_low = low;
        os_thread.stack_bytes = bytes;
    }
#else
    (void)os_thread;
#endif
}

inline void prepare(Context& context, char* stack, size_t stack_bytes, void (*function)()) {
#if defined(QCONV_SANITIZE_ADDRESS)
    context.stack_low = stack;
    context.stack_bytes = stack_bytes;
#endif
#if defined(QCONV_CPU_UCONTEXT)
    getcontext(&context.machine);
    context.machine.uc_stack.ss_sp = stack;
    context.machine.uc_stack.ss_size = stack_bytes;
    context.machine.uc_link = nullptr;
    makecontext(&context.machine, function, 0);
#else
    void** top = reinterpret_cast<void**>(stack + stack_bytes) - kSavedWords;
    for (int word = 0; word < kSavedWords; ++word) top[word] = nullptr;
    top[kEntryWord] = reinterpret_cast<void*>(function);
    context.stack_pointer = top;
#endif
}

// Returns when another context switches back to `from`, and never if `leaving_for_good`.
inline void switch_context(Context& from, Context& to, [[maybe_unused]] bool leaving_for_good = false) {
#if defined(QCONV_SANITIZE_ADDRESS)
    void** const keep = leaving_for_good ? nullptr : &from.fake_stack;
    __sanitizer_start_switch_fiber(keep, to.stack_low, to.stack_bytes);
#elif defined(QCONV_SANITIZE_THREAD)
    __tsan_switch_to_fiber(to.fiber, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(QCONV_CPU_UCONTEXT)
    swapcontext(&from.machine, &to.machine);
#else
    qconv_cpu_switch(&from.stack_pointer, to.stack_pointer);
#endif
#if defined(QCONV_SANITIZE_ADDRESS)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

}  // namespace
