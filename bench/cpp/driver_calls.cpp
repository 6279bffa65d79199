// Counts a process's calls of the CUDA driver between cuProfilerStart and cuProfilerStop, by CUPTI. The driver loads it
// where CUDA_INJECTION64_PATH says so. Each pair appends a line of JSON to the file that DRIVER_CALLS names.
#include <cupti.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::map<std::string, long> calls;
bool counts = false;

void write_line() {
    FILE* const file = fopen(getenv("DRIVER_CALLS"), "a");
    if (file == nullptr) abort();
    const char* separator = "{";
    for (const auto& one : calls) {
        fprintf(file, "%s\"%s\": %ld", separator, one.first.c_str(), one.second);
        separator = ", ";
    }
    fputs(calls.empty() ? "{}\n" : "}\n", file);
    fclose(file);
}

void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* given) {
    const auto* const call = static_cast<const CUpti_CallbackData*>(given);
    if (call->callbackSite != CUPTI_API_ENTER) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (strcmp(call->functionName, "cuProfilerStart") == 0) {
        calls.clear();
        counts = true;
    } else if (strcmp(call->functionName, "cuProfilerStop") == 0) {
        counts = false;
        write_line();
    } else if (counts) {
        ++calls[call->functionName];
    }
}

}  // namespace

extern "C" int InitializeInjection() {
    CUpti_SubscriberHandle subscriber;
    if (cuptiSubscribe(&subscriber, called, nullptr) != CUPTI_SUCCESS) return 0;
    return cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_SUCCESS;
}
