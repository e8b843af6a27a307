// The SPANK plugin itself: exported symbols, and the port between Slurm's C interface and the
// hooks.
//
// The only file that includes Slurm's headers. It is loaded by sbatch, salloc, srun, scrontab,
// slurmd and slurmstepd; Slurm's functions are left undefined and come from that process. Exported
// are the two hooks it needs and the four objects by which Slurm knows a plugin, nothing else.
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
}

#include "spank_plugin/guard.h"
#include "spank_plugin/hooks.h"
#include "spank_plugin/options.h"

#define FEDQUEUE_EXPORT __attribute__((visibility("default")))

// Constants have internal linkage in C++ unless they are declared before.
extern "C" {
extern FEDQUEUE_EXPORT const char plugin_name[];
extern FEDQUEUE_EXPORT const char plugin_type[];
extern FEDQUEUE_EXPORT const unsigned int plugin_version;
extern FEDQUEUE_EXPORT const unsigned int spank_plugin_version;
SPANK_PLUGIN(fedqueue, 1)
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
// Should init ever fail, let it be the job that fails and not the node.
FEDQUEUE_EXPORT int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif
}

namespace fedqueue::plugin {
namespace {

// Longer values than this are cut off by nothing: they are refused at submit time.
constexpr std::size_t longest_value = 8192;

constexpr const char* carrier_prefix = "SLURM_SPANK_";

void log_failure(const char* hook, const char* why) { slurm_error("fedqueue: %s: %s", hook, why); }

Hooks& hooks() {
  static Hooks instance;
  return instance;
}

int on_option(int id, const char* value, int /*remote*/) {
  return guarded("option", log_failure, [&] {
    hooks().option_given(static_cast<OptionId>(id), value);
    return 0;
  });
}

Context current_context() {
  switch (spank_context()) {
    case S_CTX_ALLOCATOR:
      return Context::submit;
    case S_CTX_LOCAL:
      return Context::step_launch;
    case S_CTX_REMOTE:
      return Context::compute;
    default:
      return Context::other;
  }
}

// The question's argument changed its type in Slurm 26.05, and so did the record's job id.
template <typename Job>
auto id_of(const Job& job, int) -> decltype(static_cast<std::uint32_t>(job.job_id)) {
  return job.job_id;
}
template <typename Job>
auto id_of(const Job& job, long) -> decltype(static_cast<std::uint32_t>(job.step_id.job_id)) {
  return job.step_id.job_id;
}

int ask_controller(job_info_msg_t** answer, std::uint32_t job_id) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
  slurm_step_id_t id = {};
  id.job_id = job_id;
  id.step_id = NO_VAL;
  id.step_het_comp = NO_VAL;
  return slurm_load_job(answer, id, SHOW_DETAIL);
#else
  return slurm_load_job(answer, job_id, SHOW_DETAIL);
#endif
}

QueueRecord from_slurm(const slurm_job_info_t& job) {
  QueueRecord record;
  record.submit = job.submit_time;
  record.eligible = job.eligible_time;
  record.start = job.start_time;
  record.restarts = job.restart_cnt;
  if (job.time_limit != INFINITE && job.time_limit != NO_VAL) {
    record.limit_s = std::int64_t{job.time_limit} * 60;
  }
  return record;
}

class SlurmPort final : public SpankPort {
 public:
  explicit SlurmPort(spank_t spank) : spank_(spank) {}

  Context context() const override { return current_context(); }

  void register_option(const OptionText& text) override {
    // Slurm copies what it needs of the table during the call, but takes pointers to non-const.
    spank_option option = {};
    option.name = const_cast<char*>(text.name);
    option.arginfo = const_cast<char*>(text.argument);
    option.usage = const_cast<char*>(text.help);
    option.has_arg = 1;
    option.val = static_cast<int>(text.id);
    option.cb = on_option;
    if (spank_option_register(spank_, &option) != ESPANK_SUCCESS) {
      slurm_debug("fedqueue: --%s could not be registered", text.name);
    }
  }

  std::optional<std::string> own_environment(const char* name) override {
    const char* value = getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  // Job control reaches the batch step of sbatch whatever --export says. srun leaves it behind, but
  // gives its steps every SLURM_* variable it has itself, also whatever --export says.
  bool carry(const char* name, const std::string& value) override {
    const std::string full = carrier_prefix + std::string(name);
    return spank_job_control_setenv(spank_, name, value.c_str(), 1) == ESPANK_SUCCESS &&
           (current_context() != Context::step_launch ||
            setenv(full.c_str(), value.c_str(), 1) == 0);
  }

  std::optional<std::string> carried(const char* name) override {
    const std::string full = carrier_prefix + std::string(name);
    return current_context() == Context::compute ? job_environment(full.c_str())
                                                 : own_environment(full.c_str());
  }

  void carry_on(const char* name, const std::string& value) override {
    export_to_tasks((carrier_prefix + std::string(name)).c_str(), value);
  }

  void export_to_tasks(const char* name, const std::string& value) override {
    if (spank_setenv(spank_, name, value.c_str(), 1) != ESPANK_SUCCESS) {
      slurm_debug("fedqueue: %s could not be set for the tasks", name);
    }
  }

  void remove_from_tasks(const char* name) override { spank_unsetenv(spank_, name); }

  std::optional<std::uint32_t> job_id() override { return item(S_JOB_ID); }
  std::optional<std::uint32_t> restarts() override { return item(S_SLURM_RESTART_COUNT); }
  std::optional<std::uint32_t> node() override { return item(S_JOB_NODEID); }

  StepKind step_kind() override {
    const auto step = item(S_JOB_STEPID);
    if (!step) return StepKind::other;
    if (*step == SLURM_BATCH_SCRIPT) return StepKind::batch;
#ifdef SLURM_INTERACTIVE_STEP
    if (*step == SLURM_INTERACTIVE_STEP) return StepKind::interactive;
#endif
    return *step <= SLURM_MAX_NORMAL_STEP_ID ? StepKind::numbered : StepKind::other;
  }

  bool first_step() override { return item(S_JOB_STEPID) == std::uint32_t{0}; }

  std::optional<QueueRecord> queue_record(std::uint32_t job_id) override {
    job_info_msg_t* answer = nullptr;
    if (ask_controller(&answer, job_id) != 0 || answer == nullptr) return std::nullopt;
    std::optional<QueueRecord> record;
    // Asking for the base id of an array brings all its tasks.
    for (std::uint32_t i = 0; i < answer->record_count && !record; ++i) {
      const slurm_job_info_t& job = answer->job_array[i];
      if (id_of(job, 0) == job_id) record = from_slurm(job);
    }
    slurm_free_job_info_msg(answer);
    return record;
  }

  void log_error(const std::string& text) override { slurm_error("fedqueue: %s", text.c_str()); }
  void log_debug(const std::string& text) override { slurm_debug("fedqueue: %s", text.c_str()); }

 private:
  std::optional<std::string> job_environment(const char* name) {
    std::vector<char> value(longest_value);
    const spank_err_t rc = spank_getenv(spank_, name, value.data(), static_cast<int>(value.size()));
    // A value too long for the buffer is handed on as it was cut: the checks refuse its length.
    if (rc != ESPANK_SUCCESS && rc != ESPANK_NOSPACE) return std::nullopt;
    value.back() = '\0';
    return std::string(value.data());
  }

  std::optional<std::uint32_t> item(spank_item_t which) {
    std::uint32_t value = 0;
    if (spank_get_item(spank_, which, &value) != ESPANK_SUCCESS) return std::nullopt;
    return value;
  }

  spank_t spank_;
};

}  // namespace
}  // namespace fedqueue::plugin

extern "C" {

FEDQUEUE_EXPORT int slurm_spank_init(spank_t spank, int /*count*/, char** /*arguments*/) {
  using namespace fedqueue::plugin;
  return guarded("init", log_failure, [&] {
    SlurmPort port(spank);
    hooks().init(port);
    return 0;
  });
}

FEDQUEUE_EXPORT int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  using namespace fedqueue::plugin;
  return guarded("init_post_opt", log_failure, [&] {
    SlurmPort port(spank);
    const int refused = hooks().init_post_opt(port, count, arguments);
    // Slurm heeds a refusal only from plugins listed as "required", and this one should not be. The
    // process is the user's own sbatch, salloc or srun, which has asked for nothing yet, and the
    // user gave the options: so it ends here, as Slurm itself would end it.
    if (refused != 0 && current_context() != Context::compute) exit(1);
    return 0;
  });
}

}  // extern "C"
