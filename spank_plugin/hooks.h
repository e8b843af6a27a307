// What the plugin does in each of Slurm's contexts, told against a small port instead of Slurm.
//
// Submit side (sbatch, salloc, srun): take the options from the command line, from the job we are
// in, or from FEDQUEUE_*; check them; refuse the command if they are wrong; else hand them on in a
// way that reaches the job whatever --export says.
// Compute side (slurmstepd): read them back, check them again, ask the controller once for the
// job's queue record, and put both into the environment of the tasks. Nothing here ever fails a
// job: a bad value becomes FED_ERROR, which the trainer reports. Everywhere: without --fed-*
// nothing happens. Not safe for concurrent calls; Slurm makes none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "spank_plugin/options.h"

namespace fedqueue::plugin {

enum class Context { submit, step_launch, compute, other };
enum class StepKind { batch, interactive, numbered, other };

// One job as the controller knows it; times are seconds since the epoch by its clock.
struct QueueRecord {
  std::int64_t submit = 0;
  std::int64_t eligible = 0;
  std::int64_t start = 0;
  std::int64_t restarts = 0;
  std::optional<std::int64_t> limit_s;  // nothing: no limit
};

// start - max(submit, eligible), never negative.
[[nodiscard]] std::int64_t queue_wait_s(const QueueRecord& record);

// A record as one line of text, and back; it travels from the batch step to the steps of its job.
[[nodiscard]] std::string to_text(std::uint32_t job_id, const QueueRecord& record);
[[nodiscard]] std::optional<QueueRecord> record_from_text(std::string_view text,
                                                          std::uint32_t job_id);

// Everything the hooks need of Slurm and of their process. No call may be assumed to succeed.
class SpankPort {
 public:
  [[nodiscard]] virtual Context context() const = 0;
  virtual void register_option(const OptionText& text) = 0;

  // Submit side.
  [[nodiscard]] virtual std::optional<std::string> own_environment(const char* name) = 0;
  virtual bool carry(const char* name, const std::string& value) = 0;

  // Both sides: what `carry` sent, or left in the environment of the job we are in.
  [[nodiscard]] virtual std::optional<std::string> carried(const char* name) = 0;

  // Compute side. `carry_on` makes a value `carried` in every later step of this job.
  virtual void carry_on(const char* name, const std::string& value) = 0;
  virtual void export_to_tasks(const char* name, const std::string& value) = 0;
  virtual void remove_from_tasks(const char* name) = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> job_id() = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> restarts() = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> node() = 0;
  [[nodiscard]] virtual StepKind step_kind() = 0;
  [[nodiscard]] virtual bool first_step() = 0;
  // One question to the controller.
  [[nodiscard]] virtual std::optional<QueueRecord> queue_record(std::uint32_t job_id) = 0;

  virtual void log_error(const std::string& text) = 0;
  virtual void log_debug(const std::string& text) = 0;

 protected:
  ~SpankPort() = default;
};

// The state of one process that has loaded the plugin: the options its command line gave.
class Hooks {
 public:
  // slurm_spank_init: registers the options where Slurm shows or delivers them.
  void init(SpankPort& port) const;

  // An option's callback; may come several times, the last value holds.
  void option_given(OptionId id, const char* value);

  // slurm_spank_init_post_opt: 0, or -1 to refuse the command; always 0 on the compute side.
  [[nodiscard]] int init_post_opt(SpankPort& port, int count, const char* const* arguments) const;

 private:
  [[nodiscard]] int submit(SpankPort& port, int count, const char* const* arguments) const;
  void compute(SpankPort& port, int count, const char* const* arguments) const;

  Options given_;
  // An option given with an empty value is a mistake to report, not the same as none.
  std::optional<OptionId> given_empty_;
};

}  // namespace fedqueue::plugin
