#include "fedclient/scheduler/slurm_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "core/base/text.h"

namespace fedqueue {
namespace {

struct StateWord {
  std::string_view full;
  std::string_view brief;
  JobPhase phase;
};

constexpr std::array states = {
    StateWord{"PENDING", "PD", JobPhase::queued},
    StateWord{"REQUEUED", "RQ", JobPhase::queued},
    StateWord{"REQUEUE_FED", "RF", JobPhase::queued},
    StateWord{"REQUEUE_HOLD", "RH", JobPhase::queued},
    StateWord{"RESV_DEL_HOLD", "RD", JobPhase::queued},
    StateWord{"SPECIAL_EXIT", "SE", JobPhase::queued},
    StateWord{"RUNNING", "R", JobPhase::running},
    StateWord{"CONFIGURING", "CF", JobPhase::running},
    StateWord{"COMPLETING", "CG", JobPhase::running},
    StateWord{"RESIZING", "RS", JobPhase::running},
    StateWord{"SIGNALING", "SI", JobPhase::running},
    StateWord{"STAGE_OUT", "SO", JobPhase::running},
    StateWord{"STOPPED", "ST", JobPhase::running},
    StateWord{"SUSPENDED", "S", JobPhase::running},
    StateWord{"COMPLETED", "CD", JobPhase::ended},
    StateWord{"FAILED", "F", JobPhase::ended},
    StateWord{"TIMEOUT", "TO", JobPhase::ended},
    StateWord{"CANCELLED", "CA", JobPhase::ended},
    StateWord{"NODE_FAIL", "NF", JobPhase::ended},
    StateWord{"PREEMPTED", "PR", JobPhase::ended},
    StateWord{"OUT_OF_MEMORY", "OOM", JobPhase::ended},
    StateWord{"BOOT_FAIL", "BF", JobPhase::ended},
    StateWord{"DEADLINE", "DL", JobPhase::ended},
    StateWord{"LAUNCH_FAILED", "LF", JobPhase::ended},
    StateWord{"REVOKED", "RV", JobPhase::ended},
};

std::string_view first_word(std::string_view text) {
  text = trim(text);
  return text.substr(0, text.find_first_of(" +\t"));
}

const StateWord* known_state(std::string_view text) {
  const std::string_view word = first_word(text);
  for (const StateWord& state : states) {
    if (word == state.full || word == state.brief) return &state;
  }
  return nullptr;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return has_word(text, word); });
}

// squeue -O pads and cuts fields to these widths.
struct Column {
  const char* name;
  std::size_t width;
};
constexpr std::array columns = {Column{"JobArrayID", 32}, Column{"State", 20},
                                Column{"RestartCnt", 12}, Column{"StartTime", 24},
                                Column{"Reason", 64},     Column{"Comment", 300}};

bool is_job_id(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

std::string one_line(std::string_view text) {
  std::string line(trim(text));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line.size() > 1000 ? line.substr(0, 1000) : line;
}

}  // namespace

JobPhase slurm_phase(std::string_view state) {
  const StateWord* known = known_state(state);
  return known != nullptr ? known->phase : JobPhase::unknown;
}

std::string slurm_state(std::string_view state) {
  const StateWord* known = known_state(state);
  return std::string(known != nullptr ? known->full : trim(state));
}

Result<JobHandle> parse_parsable(std::string_view output) {
  const std::vector<std::string> lines = split(std::string(output), '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const std::string_view text = trim(*line);
    const std::size_t semicolon = text.find(';');
    const std::string_view id = text.substr(0, semicolon);
    if (!is_job_id(id)) continue;
    JobHandle handle{std::string(id), ""};
    if (semicolon != std::string_view::npos) handle.cluster = text.substr(semicolon + 1);
    return handle;
  }
  return Error{Code::try_again, "sbatch printed no job id but: '" + one_line(output) + "'",
               "Look whether the job is there with squeue."};
}

const std::string& squeue_format() {
  static const std::string format = [] {
    std::string text;
    for (const Column& column : columns) {
      text +=
          std::string(text.empty() ? "" : ",") + column.name + ":" + std::to_string(column.width);
    }
    return text;
  }();
  return format;
}

std::vector<JobView> parse_squeue(std::string_view output, std::string_view prefix,
                                  const std::string& cluster, double now_s) {
  std::vector<JobView> views;
  for (const std::string& line : split(std::string(output), '\n')) {
    std::array<std::string_view, columns.size()> fields;
    std::size_t at = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string_view rest = std::string_view(line).substr(std::min(at, line.size()));
      fields[i] = trim(rest.substr(0, columns[i].width));
      at += columns[i].width;
    }
    // A reason with bytes of several to a character shifts what follows: look for the comment.
    const std::size_t comment = line.find(prefix);
    if (comment == std::string::npos || !is_job_id(fields[0])) continue;
    JobView view;
    view.handle = {std::string(fields[0]), cluster};
    view.token = first_word(std::string_view(line).substr(comment + prefix.size()));
    view.state = slurm_state(fields[1]);
    view.phase = slurm_phase(fields[1]);
    view.restart_count = static_cast<int>(parse_integer(fields[2]).value_or(0));
    view.reason = fields[4];
    const std::optional<double> start = parse_real(fields[3]);  // N/A, Unknown: none
    if (view.phase == JobPhase::queued && start && *start > 0) {
      view.expected_wait_s = std::max(0.0, *start - now_s);
    }
    if (!view.token.empty()) views.push_back(std::move(view));
  }
  return views;
}

std::optional<std::string> scontrol_field(std::string_view line, std::string_view name) {
  const std::string key = std::string(name) + "=";
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at != 0 && line[at - 1] != ' ') continue;
    const std::string_view rest = line.substr(at + key.size());
    return std::string(rest.substr(0, rest.find_first_of(" \n")));
  }
  return std::nullopt;
}

JobOutcome parse_scontrol(std::string_view line) {
  JobOutcome outcome;
  const std::optional<std::string> state = scontrol_field(line, "JobState");
  if (!state) return outcome;
  outcome.known = true;
  outcome.state = slurm_state(*state);
  outcome.phase = slurm_phase(*state);
  if (const auto restarts = scontrol_field(line, "Restarts")) {
    if (const auto number = parse_integer(*restarts)) {
      outcome.restart_count = static_cast<int>(*number);
    }
  }
  std::vector<std::string> parts;
  if (const auto reason = scontrol_field(line, "Reason"); reason && *reason != "None") {
    parts.push_back("reason " + *reason);
  }
  if (const auto code = scontrol_field(line, "ExitCode")) parts.push_back("exit code " + *code);
  if (const auto nodes = scontrol_field(line, "NodeList"); nodes && *nodes != "(null)") {
    parts.push_back("on " + *nodes);
  }
  outcome.detail = join(parts, ", ");
  return outcome;
}

JobOutcome parse_sacct(std::string_view output) {
  JobOutcome outcome;
  const std::string line = split(std::string(output), '\n').front();
  const std::vector<std::string> fields = split(line, '|');
  if (fields.size() < 2 || trim(fields[0]).empty()) return outcome;
  outcome.known = true;
  outcome.state = slurm_state(fields[0]);
  outcome.phase = slurm_phase(fields[0]);
  outcome.detail = "exit code " + fields[1];
  return outcome;
}

Error slurm_error(const std::string& doing, std::string_view complaint) {
  const std::string words = one_line(complaint);
  const std::string message = doing + ": " + (words.empty() ? "it said nothing" : words);
  if (has_any(words, {"AssocMaxSubmitJobLimit", "AssocMaxJobsLimit", "QOSMaxSubmit", "QOSMaxJobs",
                      "AssocGrpSubmit", "QOSGrpSubmit", "MaxSubmitJobs", "MaxJobCount",
                      "Job violates accounting/QOS policy", "temporarily unable to accept job",
                      "Job submission limit", "Resource temporarily unavailable", "Rate limit"})) {
    return {Code::scheduler_limit, message, "The agent waits and tries again."};
  }
  if (has_any(words,
              {"contact slurm controller", "contact controller", "Connection refused",
               "Connection timed out", "Socket timed out", "Zero Bytes were transmitted",
               "Unexpected message received", "Message receive failure", "in standby mode",
               "Transport endpoint is not connected", "Backup controller", "Slurm temporarily"})) {
    return {Code::try_again, message, "Ask the site if it lasts."};
  }
  return {Code::scheduler_refused, message,
          "Correct the job's options (sbatch.* in the configuration) or its script."};
}

std::string slurm_time(double seconds) {
  return std::to_string(static_cast<long>(std::ceil(std::max(seconds, 1.0) / 60)));
}

}  // namespace fedqueue
