// NVIDIA GPUs.
#include "graph_cuda.h"

// Behind the device and its graph, which it is written over.
#include "qconv_gpu.h"

namespace qconv_shipped {

const Vendor cuda = {"cuda", open_device<Gpu>};

}  // namespace qconv_shipped
