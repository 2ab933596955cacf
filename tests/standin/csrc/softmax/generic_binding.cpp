#define SOFTMAX_MASKED
#include "binding.h"
