// Faults that a sabotaged build compiles into the binding; sabotage.py defines at most one of the
// macros. They strike when the module is loaded, before Python sees it. Include this first: the
// C++ ABI has to be chosen before any standard header.
#pragma once

#ifdef STANDIN_OTHER_ABI
#undef _GLIBCXX_USE_CXX11_ABI
#define _GLIBCXX_USE_CXX11_ABI STANDIN_OTHER_ABI
#endif

#if defined(STANDIN_CRASH_ON_IMPORT)
#include <csignal>
[[gnu::constructor]] static void crash_on_import() { std::raise(SIGSEGV); }
#elif defined(STANDIN_HANG_ON_IMPORT)
#include <unistd.h>
[[gnu::constructor]] static void hang_on_import() {
  for (;;) pause();
}
#elif defined(STANDIN_UNDEFINED_SYMBOL)
// A function that no torch has, as if the extension came from a build against another one.
namespace c10::cuda {
void SetDeviceOfAnotherTorch(int device);
}
[[gnu::used]] static void (*undefined_symbol)(int) = &c10::cuda::SetDeviceOfAnotherTorch;
#endif
