// fedserver export: a published model, or the mean of the newest, as one file; what it is made of
// is checked against the journal.
#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "aggregation/reduce/average.h"
#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/tensor/control.h"
#include "fedserver/blobs/blobs.h"
#include "fedserver/commands/commands.h"

namespace fedqueue {
namespace {

Status check_digest(const std::filesystem::path& path, const ModelRecord& model) {
  Result<FileDescriptor> source = open_file(path, O_RDONLY);
  if (!source) return source.error();
  Sha256 digest;
  std::vector<std::byte> buffer(4u << 20);
  for (;;) {
    const ssize_t count = ::read(source->get(), buffer.data(), buffer.size());
    if (count < 0) return storage_error("read '" + path.string() + "'", errno);
    if (count == 0) break;
    digest.update(std::span<const std::byte>(buffer.data(), static_cast<std::size_t>(count)));
  }
  if (digest.hex() == model.sha256) return {};
  return Error{Code::storage,
               "'" + path.string() + "' is damaged: its sha256 is " + digest.hex() +
                   ", and the journal says " + model.sha256,
               "Restore it from a backup, or export another version."};
}

struct Exported {
  Version from = 0;  // the oldest version that is in it
  Version version = 0;
  std::string sha256;
  std::uint64_t bytes = 0;
};

// The models of the newest `count` versions up to this one, oldest first.
Result<std::vector<ModelRecord>> kept_models(const RunState& state, Version version,
                                             std::int64_t count) {
  std::vector<ModelRecord> models;
  for (Version next = version - count + 1; next <= version; ++next) {
    const auto found = state.models.find(next);
    if (found != state.models.end()) {
      models.push_back(found->second);
      continue;
    }
    return Error{
        Code::not_found,
        "version " + std::to_string(next) + " is not there; the newest is " +
            std::to_string(state.latest),
        next < 0 ? "Average fewer versions." : "Old versions are removed: see models_kept."};
  }
  return models;
}

// One model without what only training needs, through a temporary name.
Result<Exported> write_export(const RunDirectory& directory, const std::vector<ModelRecord>& models,
                              const std::filesystem::path& to) {
  std::vector<std::filesystem::path> paths;
  for (const ModelRecord& model : models) {
    paths.push_back(directory.server() / "models" / model.file);
    if (Status whole = check_digest(paths.back(), model); !whole) return whole.error();
  }
  const Version from = models.front().version;
  const Version version = models.back().version;
  const std::filesystem::path mean = to.string() + ".mean";
  struct Remove {
    const std::filesystem::path& path;
    ~Remove() { ::unlink(path.c_str()); }
  } remove{mean};
  if (models.size() > 1) {
    const std::string versions = std::to_string(from) + "-" + std::to_string(version);
    const Result<ReduceResult> averaged =
        average_models(paths, {{"fedqueue.averaged_versions", versions}}, mean);
    if (!averaged) return within("average versions " + versions, averaged.error());
  }
  const Result<tensor::Reader> model =
      tensor::Reader::open(models.size() > 1 ? mean : paths.back());
  if (!model) return model.error();
  const std::filesystem::path temporary = to.string() + ".part";
  Exported exported{from, version, models.back().sha256, models.back().bytes};
  if (models.size() > 1 || tensor::has_controls(model->manifest())) {
    const Result<tensor::Manifest> layout = tensor::without_controls(model->manifest());
    if (!layout) return layout.error();
    const Result<tensor::WrittenFile> written = tensor::copy_tensors(*model, *layout, temporary);
    if (!written) return written.error();
    exported.sha256 = written->sha256;
    exported.bytes = written->bytes;
  } else if (Status copied = copy_durably(model->path(), temporary); !copied) {
    return copied.error();
  }
  if (::rename(temporary.c_str(), to.c_str()) != 0) {
    const Error error = storage_error("rename to '" + to.string() + "'", errno);
    ::unlink(temporary.c_str());
    return error;
  }
  if (Status synced = sync_directory(to.parent_path()); !synced) return synced.error();
  return exported;
}

void print(const Settings& settings, const Exported& model, const std::filesystem::path& to) {
  if (settings.text("format") == "json") {
    nlohmann::json json = {{"version", model.version},
                           {"file", to.string()},
                           {"sha256", model.sha256},
                           {"bytes", model.bytes}};
    if (model.from != model.version) json["averaged_from"] = model.from;
    std::cout << json << "\n";
    return;
  }
  if (model.from == model.version) {
    std::cout << "version " << model.version;
  } else {
    std::cout << "mean of versions " << model.from << " to " << model.version;
  }
  std::cout << " -> " << to.string() << " (" << model.bytes << " bytes, sha256 " << model.sha256
            << ")\n";
}

// As asked for, or as the run's policy has it: then as many of them as are still there.
std::int64_t averaged_versions(const Settings& settings, const Engine& engine, Version version) {
  if (settings.has("average")) return settings.integer("average");
  const std::int64_t wished = *engine.config().policy.effective().average_versions;
  const auto& models = engine.state().models;
  std::int64_t there = 1;
  while (there < wished && models.count(version - there) != 0) ++there;
  return there;
}

Result<int> run_export(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  const Result<RunFromJournal> run = replay_run(directory, settings);
  if (!run) return run.error();
  const RunState& state = run->engine->state();
  const Version version = settings.has("version") ? settings.integer("version") : state.latest;
  const Result<std::vector<ModelRecord>> models =
      kept_models(state, version, averaged_versions(settings, *run->engine, version));
  if (!models) return models.error();
  const std::filesystem::path to =
      settings.has("output") ? settings.path("output") : std::filesystem::path(models->back().file);
  const Result<Exported> exported = write_export(directory, *models, to);
  if (!exported) return exported.error();
  print(settings, *exported, to);
  return 0;
}

}  // namespace

Command export_command() {
  Command command;
  command.verb = "export";
  command.summary = "Write a published model to one safetensors file";
  command.examples = {"fedserver export runs/mnist -o model.safetensors",
                      "fedserver export runs/mnist --version 7 -o round7.safetensors",
                      "fedserver export runs/mnist --average 5 -o mean.safetensors"};
  command.details =
      "With --average, and under a policy whose option average_versions says so (resident: 16), "
      "the mean "
      "of "
      "the newest versions is written (LAWA), which often judges better than the last of them; "
      "training is not touched. --average 1 writes the version itself. Control variates are left "
      "out.";
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
                              .in_files = false},
                             {.name = "average",
                              .kind = Kind::integer,
                              .help = "The mean of so many versions up to it, all of them kept; as "
                                      "the run's policy has it if left out.",
                              .minimum = 1,
                              .maximum = average_max,
                              .in_files = false}}});
  command.arguments = {directory_argument()};
  command.reads = true;
  command.user_file = settings_file;
  command.run = run_export;
  return command;
}

}  // namespace fedqueue
