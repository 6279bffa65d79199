// AMD GPUs.
#include "graph_hip.h"

// Behind the device and its graph, which it is written over.
#include "qconv_gpu.h"

namespace qconv_shipped {

const Vendor hip = {"hip", open_device<Gpu>};

}  // namespace qconv_shipped
