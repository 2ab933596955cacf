#define SOFTMAX_CAUSAL
#include "binding.h"
