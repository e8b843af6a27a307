#include "fake_slurm.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>

struct spank_handle {};

namespace fake_slurm {
namespace {

int allocations_until_failure = 0;
bool failure_came = false;
int depth_in_slurm = 1;  // 0 only while the plugin's own code runs

class InSlurm {
 public:
  InSlurm() {
    ++depth_in_slurm;
    ++state().calls;
  }
  ~InSlurm() { --depth_in_slurm; }
  InSlurm(const InSlurm&) = delete;
  InSlurm& operator=(const InSlurm&) = delete;
};

bool must_fail_now() {
  if (allocations_until_failure == 0 || depth_in_slurm > 0) return false;
  if (--allocations_until_failure > 0) return false;
  failure_came = true;
  return true;
}

}  // namespace

void fail_allocation(int nth) {
  allocations_until_failure = nth;
  failure_came = false;
}

bool allocation_failed() { return failure_came; }

State& state() {
  static State instance;
  return instance;
}

Plugin::Plugin(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) std::fprintf(stderr, "%s\n", dlerror());
}

Plugin::~Plugin() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* Plugin::symbol(const char* name) const { return dlsym(handle_, name); }

int Plugin::hook(const char* name, std::vector<std::string> arguments) const {
  const auto function =
      reinterpret_cast<spank_f*>(symbol((std::string("slurm_spank_") + name).c_str()));
  if (function == nullptr) return 0;
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  static spank_handle handle;
  --depth_in_slurm;
  const int result = function(&handle, static_cast<int>(arguments.size()), pointers.data());
  ++depth_in_slurm;
  return result;
}

int Plugin::give(const char* name, const char* value) const {
  for (const Option& option : state().options) {
    if (option.name == name) {
      return option.callback(option.value, value, state().context == S_CTX_REMOTE);
    }
  }
  throw std::logic_error(std::string("the plugin registered no option ") + name);
}

}  // namespace fake_slurm

using fake_slurm::InSlurm;
using fake_slurm::state;

// Slurm defines it as a plain number, which C++ does not turn into the enumeration by itself.
constexpr auto success = static_cast<spank_err_t>(ESPANK_SUCCESS);

extern "C" {

// The plugin's allocations end here, because the executable comes before the C library.
void* __libc_malloc(std::size_t size);
void* malloc(std::size_t size) {
  return fake_slurm::must_fail_now() ? nullptr : __libc_malloc(size);
}

spank_context_t spank_context() { return state().context; }

spank_err_t spank_option_register(spank_t, spank_option* option) {
  const InSlurm here;
  state().options.push_back({option->name, option->val, option->cb});
  return success;
}

spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
  const InSlurm here;
  const auto failing = state().failing_items.find(item);
  if (failing != state().failing_items.end()) return failing->second;
  const auto found = state().items.find(item);
  if (found == state().items.end()) return ESPANK_NOT_AVAIL;
  va_list arguments;
  va_start(arguments, item);
  *va_arg(arguments, std::uint32_t*) = found->second;
  va_end(arguments);
  return success;
}

spank_err_t spank_getenv(spank_t, const char* name, char* buffer, int length) {
  const InSlurm here;
  const auto found = state().job_environment.find(name);
  if (found == state().job_environment.end()) return ESPANK_ENV_NOEXIST;
  std::snprintf(buffer, static_cast<std::size_t>(length), "%s", found->second.c_str());
  return found->second.size() < static_cast<std::size_t>(length) ? success : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t, const char* name, const char* value, int) {
  const InSlurm here;
  if (state().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  state().job_environment[name] = value;
  return success;
}

spank_err_t spank_unsetenv(spank_t, const char* name) {
  const InSlurm here;
  state().job_environment.erase(name);
  return success;
}

spank_err_t spank_job_control_setenv(spank_t, const char* name, const char* value, int) {
  const InSlurm here;
  if (state().context == S_CTX_REMOTE) return ESPANK_NOT_LOCAL;
  state().job_control[name] = value;
  return success;
}

int slurm_load_job(job_info_msg_t** answer, std::uint32_t, std::uint16_t) {
  const InSlurm here;
  ++state().controller_questions;
  if (state().controller_result != 0) return state().controller_result;
  *answer = new job_info_msg_t();
  (*answer)->record_count = static_cast<std::uint32_t>(state().jobs.size());
  (*answer)->job_array = state().jobs.data();
  return 0;
}

void slurm_free_job_info_msg(job_info_msg_t* answer) { delete answer; }

void slurm_error(const char* format, ...) {
  const InSlurm here;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  state().errors.emplace_back(text);
  std::fprintf(stderr, "error: %s\n", text);
}

void slurm_debug(const char*, ...) {}

}  // extern "C"
