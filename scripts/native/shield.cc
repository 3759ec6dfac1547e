// A signal that arrives while a thread is inside oneDNN's AVX-512 matrix product (TensorFlow 2.21) corrupts the heap: measured, a few hundred
// signals of any kind (a resized terminal, a child that ends, a profiler) end the process. So the thread that loads this addon takes no signals
// any more, and neither do the threads that TensorFlow starts from it afterwards; Node's other threads take them, and its handlers run as ever.
#include <csignal>
#include <initializer_list>
#include <node_api.h>

NAPI_MODULE_INIT() {
  sigset_t signals;
  sigfillset(&signals);
  // Those that an instruction of the thread itself causes.
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&signals, own);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return exports;
}
