#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/kit/kit.h"
#include "fedserver/commands/commands.h"
#include "fedserver/journal/sqlite_journal.h"

namespace fedqueue {

ArgumentSpec directory_argument() {
  return {
      .name = "DIR", .help = "The run directory; the current one if left out.", .required = false};
}

std::filesystem::path settings_file(const std::vector<std::string>& arguments) {
  const std::filesystem::path root = arguments.empty() ? "." : arguments.front();
  return RunDirectory{root}.config();
}

Status copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failed;
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing, failed);
  if (failed) return storage_error("copy '" + from.string() + "'", failed.value());
  const Result<FileDescriptor> copy = open_file(to, O_RDONLY);
  if (!copy) return copy.error();
  if (::fsync(copy->get()) != 0) return storage_error("sync '" + to.string() + "'", errno);
  return {};
}

bool keeps_control_variates(const EngineConfig& config) {
  return *config.policy.effective().control_variates;
}

Result<std::unique_ptr<Link>> operator_link(const RunDirectory& directory) {
  const Result<std::string> endpoint = read_file(directory.endpoint(), 4096);
  if (!endpoint) {
    return Error{Code::network_refused,
                 "reach the server of '" + directory.root.string() + "': it is not running",
                 "Start it with: fedserver run " + directory.root.string()};
  }
  const Result<Kit> kit = load_kit(directory.operator_kit(), {IdentityKind::administrator});
  if (!kit) return kit.error();
  LinkConfig config;
  config.server_url = std::string(trim(*endpoint));
  config.run = RunId(kit->run);
  config.ca = kit->ca_file;
  config.certificate = kit->certificate_file;
  config.key = kit->key_file;
  config.proxy = "direct";  // the server is on this machine
  return Link::create(std::move(config));
}

Result<RunFromJournal> replay_run(
    const RunDirectory& directory, const Settings& settings,
    const std::function<void(const Fact&, Instant, const Engine&)>& visit) {
  std::error_code ignored;
  if (!std::filesystem::exists(directory.journal(), ignored)) {
    return Error{Code::not_found,
                 "'" + directory.root.string() + "' holds no run that was ever started",
                 "Make one with fedserver init and start it with fedserver run."};
  }
  Result<EngineConfig> config = engine_config(settings);
  if (!config) return config.error();
  const Result<std::unique_ptr<SqliteJournal>> journal = SqliteJournal::open(directory.journal());
  if (!journal) return journal.error();
  RunFromJournal run{std::make_unique<Engine>(std::move(*config)), {}};
  std::int64_t after = 0;
  for (;;) {
    const Result<std::vector<JournalRow>> rows = (*journal)->rows(after, 4096);
    if (!rows) return rows.error();
    if (rows->empty()) return run;
    for (const JournalRow& row : *rows) {
      const Result<Fact> fact = decode_fact(row.kind, row.text);
      if (!fact) return fact.error();
      run.engine->apply(*fact, row.at);
      if (visit) visit(*fact, row.at, *run.engine);
      after = row.sequence;
      run.at = row.at;
    }
  }
}

}  // namespace fedqueue
