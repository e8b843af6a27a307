// A process that looks like Slurm to the plugin: it supplies the functions the plugin leaves
// undefined, and keeps everything the plugin asks for or sets in one structure that a test fills
// and reads. Link it into an executable with ENABLE_EXPORTS, then load the plugin with `Plugin`.
// Not thread safe; Slurm calls hooks from one thread.
#pragma once

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_slurm {

struct Option {
  std::string name;
  int value = 0;
  spank_opt_cb_f callback = nullptr;
};

struct State {
  spank_context_t context = S_CTX_ALLOCATOR;
  std::map<std::string, std::string> job_environment;
  std::map<std::string, std::string> job_control;
  std::map<spank_item_t, std::uint32_t> items;
  std::map<spank_item_t, spank_err_t> failing_items;
  std::vector<slurm_job_info_t> jobs;  // what the controller knows
  int controller_result = 0;
  // What the plugin did.
  std::vector<Option> options;
  std::vector<std::string> errors;
  int controller_questions = 0;
  int calls = 0;  // of any function but spank_context
};

State& state();

// The nth allocation the plugin makes from now on fails, once; 0 for none. This is how an exception
// comes about inside the plugin: Slurm, being C, throws none. The functions of this process are not
// affected.
void fail_allocation(int nth);
// True when that allocation came and failed.
[[nodiscard]] bool allocation_failed();

// The plugin, loaded as Slurm loads it; unloaded at the end, so that the next one starts afresh.
class Plugin {
 public:
  explicit Plugin(const char* file);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  [[nodiscard]] void* symbol(const char* name) const;
  // Calls the hook slurm_spank_<name>; a hook the plugin does not have succeeds, as in Slurm.
  int hook(const char* name, std::vector<std::string> arguments = {}) const;
  // Gives an option as Slurm does: through the callback of the option registered under that name.
  int give(const char* name, const char* value) const;

 private:
  void* handle_;
};

}  // namespace fake_slurm
