#define SOFTMAX_MASKED
#define SOFTMAX_WITH_BATCH_PER_BLOCK
#include "binding.h"
