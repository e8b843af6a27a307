// fedserver export: a published model as one file, checked against the journal.
#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "fedserver/blobs/blobs.h"
#include "fedserver/commands/commands.h"

namespace fedqueue {
namespace {

// Copies through a temporary name and checks what was copied.
Status copy_checked(const std::filesystem::path& from, const std::filesystem::path& to,
                    const ModelRecord& model) {
  Result<FileDescriptor> source = open_file(from, O_RDONLY);
  if (!source) return source.error();
  const std::filesystem::path temporary = to.string() + ".part";
  const auto copy = [&]() -> Status {
    Result<FileDescriptor> target = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (!target) return target.error();
    Sha256 digest;
    std::vector<std::byte> buffer(4u << 20);
    for (;;) {
      const ssize_t count = ::read(source->get(), buffer.data(), buffer.size());
      if (count < 0) return storage_error("read '" + from.string() + "'", errno);
      if (count == 0) break;
      const std::span<const std::byte> bytes(buffer.data(), static_cast<std::size_t>(count));
      digest.update(bytes);
      if (Status written = write_all(target->get(), bytes, temporary); !written) return written;
    }
    if (digest.hex() != model.sha256) {
      return Error{Code::storage,
                   "'" + from.string() + "' is damaged: its sha256 is " + digest.hex() +
                       ", and the journal says " + model.sha256,
                   "Restore it from a backup, or export another version."};
    }
    if (::fsync(target->get()) != 0)
      return storage_error("sync '" + temporary.string() + "'", errno);
    if (::rename(temporary.c_str(), to.c_str()) != 0) {
      return storage_error("rename to '" + to.string() + "'", errno);
    }
    return sync_directory(to.parent_path());
  };
  Status copied = copy();
  if (!copied) ::unlink(temporary.c_str());
  return copied;
}

Result<int> run_export(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  const Result<RunFromJournal> run = replay_run(directory, settings);
  if (!run) return run.error();
  const RunState& state = run->engine->state();
  const Version version = settings.has("version") ? settings.integer("version") : state.latest;
  const auto found = state.models.find(version);
  if (found == state.models.end()) {
    return Error{Code::not_found,
                 "version " + std::to_string(version) + " is not there; the newest is " +
                     std::to_string(state.latest),
                 "Old versions are removed: see models_kept."};
  }
  const ModelRecord& model = found->second;
  const std::filesystem::path from = directory.server() / "models" / model.file;
  const std::filesystem::path to =
      settings.has("output") ? settings.path("output") : std::filesystem::path(model.file);
  if (Status copied = copy_checked(from, to, model); !copied) return copied.error();
  if (settings.text("format") == "json") {
    std::cout << nlohmann::json({{"version", version},
                                 {"file", to.string()},
                                 {"sha256", model.sha256},
                                 {"bytes", model.bytes}})
              << "\n";
  } else {
    std::cout << "version " << version << " -> " << to.string() << " (" << model.bytes
              << " bytes, sha256 " << model.sha256 << ")\n";
  }
  return 0;
}

}  // namespace

Command export_command() {
  Command command;
  command.verb = "export";
  command.summary = "Write a published model to one safetensors file";
  command.examples = {"fedserver export runs/mnist -o model.safetensors",
                      "fedserver export runs/mnist --version 7 -o round7.safetensors"};
  command.options = all_of({hidden_run_options(),
                            {{.name = "output",
                              .kind = Kind::path,
                              .help = "The file to write; the model's own name if left out.",
                              .short_form = 'o',
                              .in_files = false},
                             {.name = "version",
                              .kind = Kind::integer,
                              .help = "Which version; the newest if left out.",
                              .minimum = 0,
                              .in_files = false}}});
  command.arguments = {directory_argument()};
  command.reads = true;
  command.user_file = settings_file;
  command.run = run_export;
  return command;
}

}  // namespace fedqueue
