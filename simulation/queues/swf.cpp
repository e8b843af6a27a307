#include "simulation/queues/swf.h"

#include <algorithm>
#include <array>

#include "core/base/file.h"
#include "core/base/text.h"

namespace fedqueue::simulation {
namespace {

constexpr std::size_t kFields = 18;
constexpr std::size_t kLogBytesMax = std::size_t{1} << 30;

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> result;
  std::size_t at = 0;
  while (at < line.size()) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    result.push_back(line.substr(at, end - at));
    at = end;
  }
  return result;
}

std::optional<double> known(double value) {
  return value >= 0 ? std::optional<double>(value) : std::nullopt;
}

void read_comment(std::string_view line, SwfLog& log) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view key = trim(line.substr(1, colon - 1));
  const auto value = parse_integer(trim(line.substr(colon + 1)));
  if (!value || *value < 1) return;
  if (key == "MaxProcs") log.processors_max = *value;
  if (key == "MaxNodes" && !log.processors_max) log.processors_max = *value;
}

Result<SwfJob> read_job(std::string_view line, const std::string& place) {
  const std::vector<std::string_view> texts = words(line);
  if (texts.size() != kFields) {
    return Error{Code::data,
                 "read " + place + ": expected 18 numbers, found " + std::to_string(texts.size()) +
                     (texts.size() == 1 ? " word" : " words"),
                 "Give a log in the Standard Workload Format; comments begin with ';'."};
  }
  std::array<double, kFields> fields{};
  for (std::size_t i = 0; i < kFields; ++i) {
    const auto value = parse_real(texts[i]);
    if (!value) {
      return Error{Code::data,
                   "read " + place + ": field " + std::to_string(i + 1) + " is '" +
                       std::string(texts[i].substr(0, 40)) + "', expected a number",
                   "Give a log in the Standard Workload Format; comments begin with ';'."};
    }
    fields[i] = *value;
  }
  SwfJob job;
  job.id = static_cast<std::int64_t>(fields[0]);
  job.submit_s = fields[1];
  job.wait_s = known(fields[2]);
  job.run_s = known(fields[3]);
  const double processors = fields[4] > 0 ? fields[4] : fields[7];
  job.processors = static_cast<std::int64_t>(std::max(0.0, processors));
  job.requested_s = known(fields[8]);
  job.user = static_cast<std::int64_t>(fields[11]);
  job.queue = static_cast<std::int64_t>(fields[14]);
  return job;
}

}  // namespace

Result<SwfLog> parse_swf(std::string_view text, const std::string& name) {
  SwfLog log;
  std::size_t at = 0;
  for (int number = 1; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at));
    at = end + 1;
    if (line.empty()) continue;
    if (line.front() == ';') {
      read_comment(line, log);
      continue;
    }
    Result<SwfJob> job = read_job(line, name + " line " + std::to_string(number));
    if (!job) return job.error();
    log.jobs.push_back(*job);
  }
  if (log.jobs.empty()) {
    return Error{Code::data, "read " + name + ": it holds no job",
                 "Give a log in the Standard Workload Format with at least one job."};
  }
  std::stable_sort(log.jobs.begin(), log.jobs.end(),
                   [](const SwfJob& a, const SwfJob& b) { return a.submit_s < b.submit_s; });
  return log;
}

Result<SwfLog> read_swf(const std::filesystem::path& path) {
  Result<std::string> text = read_file(path, kLogBytesMax);
  if (!text) return text.error();
  return parse_swf(*text, path.string());
}

std::vector<SwfJob> usable_jobs(const SwfLog& log) {
  std::vector<SwfJob> jobs;
  for (const SwfJob& job : log.jobs) {
    if (job.run_s && *job.run_s > 0 && job.processors > 0 && job.submit_s >= 0) jobs.push_back(job);
  }
  return jobs;
}

JobClass class_of(const SwfJob& job) {
  JobClass result{job.queue, 0};
  while ((std::int64_t{1} << result.size_exponent) < job.processors) ++result.size_exponent;
  return result;
}

}  // namespace fedqueue::simulation
