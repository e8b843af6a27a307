#include "spank_plugin/hooks.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace fedqueue::plugin {
namespace {

// The queue record on its way to the steps of a job.
constexpr const char* record_carrier = "FED_RECORD";

constexpr std::array record_variables = {
    "FED_JOB_ID",       "FED_SUBMIT_TIME",   "FED_ELIGIBLE_TIME", "FED_START_TIME",
    "FED_QUEUE_WAIT_S", "FED_RESTART_COUNT", "FED_TIME_LIMIT_S",  "FED_END_TIME",
};

void complain(SpankPort& port, const SiteSettings& site) {
  for (const std::string& complaint : site.complaints) port.log_error(complaint);
}

void apply_site_defaults(Options& options, const SiteSettings& site) {
  if (!options.has(OptionId::facility)) options.set(OptionId::facility, site.facility);
  if (!options.has(OptionId::server)) options.set(OptionId::server, site.server);
}

// Under what name the value as it was typed travels, where it differs from what was made of it.
std::string typed_carrier(const OptionText& text) { return std::string(text.carrier) + "_TYPED"; }

// Inside a job that opted in, Slurm gives the job's options to every srun and sbatch again, as if
// they had been typed there. Those travel by themselves, and a relative path among them would mean
// something else here; so only what differs from the job's own counts as given.
void drop_inherited(SpankPort& port, Options& options) {
  for (const OptionText& text : option_texts) {
    const auto carried = port.carried(text.carrier);
    if (!carried || !options.has(text.id)) continue;
    const auto typed = port.carried(typed_carrier(text).c_str());
    if (options.at(text.id) == *carried || (typed && options.at(text.id) == *typed)) {
      options.set(text.id, "");
    }
  }
}

// FEDQUEUE_* stands for the options, but only together with FEDQUEUE_RUN or --fed-run.
void take_from_environment(SpankPort& port, Options& options) {
  const auto run = port.own_environment(text_of(OptionId::run).environment);
  if ((!run || run->empty()) && !options.has(OptionId::run)) return;
  for (const OptionText& text : option_texts) {
    const auto value = port.own_environment(text.environment);
    if (value && !options.has(text.id)) options.set(text.id, *value);
  }
}

bool hand_on(SpankPort& port, const Options& options, const Options& typed) {
  for (const OptionText& text : option_texts) {
    const std::string& value = options.at(text.id);
    if (value.empty()) continue;
    if (!port.carry(text.carrier, value)) return false;
    if (value != typed.at(text.id) && typed.has(text.id)) {
      port.carry(typed_carrier(text).c_str(), typed.at(text.id));
    }
  }
  return true;
}

// All digits, at most 18 of them, so that it fits into 64 bits.
bool parse_number(std::string_view text, std::int64_t& value) {
  if (text.empty() || text.size() > 18) return false;
  value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return false;
    value = value * 10 + (digit - '0');
  }
  return true;
}

void export_record(SpankPort& port, const QueueRecord& record) {
  port.export_to_tasks("FED_SUBMIT_TIME", std::to_string(record.submit));
  port.export_to_tasks("FED_ELIGIBLE_TIME", std::to_string(record.eligible));
  port.export_to_tasks("FED_START_TIME", std::to_string(record.start));
  port.export_to_tasks("FED_QUEUE_WAIT_S", std::to_string(queue_wait_s(record)));
  port.export_to_tasks("FED_RESTART_COUNT", std::to_string(record.restarts));
  if (!record.limit_s) return;
  port.export_to_tasks("FED_TIME_LIMIT_S", std::to_string(*record.limit_s));
  port.export_to_tasks("FED_END_TIME", std::to_string(record.start + *record.limit_s));
}

// The record the batch step handed on, if this is one of its job's steps and the same launch of it.
std::optional<QueueRecord> inherited_record(SpankPort& port, std::uint32_t job_id) {
  const auto text = port.carried(record_carrier);
  if (!text) return std::nullopt;
  auto record = record_from_text(*text, job_id);
  if (record && port.restarts() && record->restarts != *port.restarts()) return std::nullopt;
  return record;
}

// The batch step always asks: whatever it inherited belongs to another job or an earlier launch.
// Other steps ask only if they are the job's first, so that it is one question per job.
std::optional<QueueRecord> find_record(SpankPort& port, const SiteSettings& site) {
  const auto job_id = port.job_id();
  if (!job_id) return std::nullopt;
  const StepKind kind = port.step_kind();
  const bool starts_job = kind == StepKind::batch || kind == StepKind::interactive;
  if (!starts_job) {
    if (auto record = inherited_record(port, *job_id)) return record;
  }
  const bool first_node = port.node().value_or(0) == 0;
  const bool may_ask = starts_job || (kind == StepKind::numbered && port.first_step());
  if (!site.record || !first_node || !may_ask) return std::nullopt;
  auto record = port.queue_record(*job_id);
  if (!record) port.log_debug("the controller gave no queue record; the trainer asks for itself");
  return record;
}

void hand_over_record(SpankPort& port, const SiteSettings& site) {
  const auto record = find_record(port, site);
  if (const auto job_id = port.job_id()) {
    port.export_to_tasks("FED_JOB_ID", std::to_string(*job_id));
    if (record) port.carry_on(record_carrier, to_text(*job_id, *record));
  }
  if (record) {
    export_record(port, *record);
  } else if (const auto restarts = port.restarts()) {
    port.export_to_tasks("FED_RESTART_COUNT", std::to_string(*restarts));
  }
}

}  // namespace

std::int64_t queue_wait_s(const QueueRecord& record) {
  return std::max<std::int64_t>(0, record.start - std::max(record.submit, record.eligible));
}

std::string to_text(std::uint32_t job_id, const QueueRecord& record) {
  const auto field = [](std::int64_t value) { return ":" + std::to_string(value); };
  return std::to_string(job_id) + field(record.restarts) + field(record.submit) +
         field(record.eligible) + field(record.start) + ":" +
         (record.limit_s ? std::to_string(*record.limit_s) : "none");
}

std::optional<QueueRecord> record_from_text(std::string_view text, std::uint32_t job_id) {
  if (std::count(text.begin(), text.end(), ':') != 5) return std::nullopt;
  std::int64_t job = 0;
  QueueRecord record;
  for (std::int64_t* value :
       {&job, &record.restarts, &record.submit, &record.eligible, &record.start}) {
    const std::size_t colon = text.find(':');
    if (!parse_number(text.substr(0, colon), *value)) return std::nullopt;
    text.remove_prefix(colon + 1);
  }
  if (job != static_cast<std::int64_t>(job_id)) return std::nullopt;
  if (text == "none") return record;
  std::int64_t limit = 0;
  if (!parse_number(text, limit)) return std::nullopt;
  record.limit_s = limit;
  return record;
}

void Hooks::init(SpankPort& port) const {
  if (port.context() == Context::other) return;
  for (const OptionText& text : option_texts) port.register_option(text);
}

void Hooks::option_given(OptionId id, const char* value) {
  given_.set(id, value == nullptr ? "" : value);
  if (given_.has(id)) {
    if (given_empty_ == id) given_empty_.reset();
  } else {
    given_empty_ = id;
  }
}

int Hooks::init_post_opt(SpankPort& port, int count, const char* const* arguments) const {
  switch (port.context()) {
    case Context::submit:
    case Context::step_launch:
      return submit(port, count, arguments);
    case Context::compute:
      compute(port, count, arguments);
      return 0;
    case Context::other:
      return 0;
  }
  return 0;
}

int Hooks::submit(SpankPort& port, int count, const char* const* arguments) const {
  Options options = given_;
  const auto inherited_run = port.carried(text_of(OptionId::run).carrier);
  if (inherited_run) {
    // The job's own values go on by themselves, and hold over FEDQUEUE_*.
    drop_inherited(port, options);
  } else {
    take_from_environment(port, options);
  }
  if (!options.any() && !given_empty_) return 0;

  const SiteSettings site = parse_site_settings(count, arguments);
  complain(port, site);
  Options checked = options;
  if (inherited_run && !options.has(OptionId::run)) {
    checked.set(OptionId::run, *inherited_run);
  }
  const Options typed = options;
  if (options.has(OptionId::run)) apply_site_defaults(options, site);
  Problem problem = given_empty_ ? check_text(*given_empty_, "") : check_texts(checked);
  if (!problem) problem = resolve_paths(options);
  if (!problem && !hand_on(port, options, typed)) {
    problem =
        "--fed-run: the options could not be handed to the job, because Slurm refused to carry "
        "them; submit without --fed-* or ask the administrator.";
  }
  if (!problem) return 0;
  port.log_error(*problem);
  return -1;
}

void Hooks::compute(SpankPort& port, int count, const char* const* arguments) const {
  Options options;
  for (const OptionText& text : option_texts) {
    const auto carried = port.carried(text.carrier);
    options.set(text.id, carried && !carried->empty() ? *carried : given_.at(text.id));
  }
  if (!options.any()) return;

  const SiteSettings site = parse_site_settings(count, arguments);
  complain(port, site);
  apply_site_defaults(options, site);
  // What the job this one was submitted from had would be wrong here.
  port.remove_from_tasks("FED_ERROR");
  for (const OptionText& text : option_texts) port.remove_from_tasks(text.exported);
  for (const char* name : record_variables) port.remove_from_tasks(name);
  if (const Problem problem = check_texts(options)) {
    port.export_to_tasks("FED_ERROR", *problem);
    return;
  }
  for (const OptionText& text : option_texts) {
    if (options.has(text.id)) port.export_to_tasks(text.exported, options.at(text.id));
  }
  if (!site.min_poll_s.empty()) port.export_to_tasks("FED_POLL_MIN_S", site.min_poll_s);
  hand_over_record(port, site);
}

}  // namespace fedqueue::plugin
