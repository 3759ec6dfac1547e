// While TensorFlow's libraries are loaded they describe themselves on standard error, and no setting stops that.
// Loading this addon sends standard error nowhere; the function it exports brings it back.
#include <fcntl.h>
#include <node_api.h>
#include <unistd.h>

static int kept = -1;

static napi_value restore(napi_env, napi_callback_info) {
  if (kept >= 0) {
    dup2(kept, STDERR_FILENO);
    close(kept);
    kept = -1;
  }
  return nullptr;
}

NAPI_MODULE_INIT() {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) {
    kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (kept >= 0) dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  napi_value function;
  napi_create_function(env, "restore", NAPI_AUTO_LENGTH, restore, nullptr, &function);
  return function;
}
