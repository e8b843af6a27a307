// fedserver init: a run directory with its settings, its CA, its server certificate, the operator's
// kit and the initial model.
#include <unistd.h>

#include <iostream>

#include "core/base/file.h"
#include "core/tensor/control.h"
#include "fedserver/blobs/blobs.h"
#include "fedserver/certificates/commands.h"
#include "fedserver/commands/commands.h"

namespace fedqueue {
namespace {

// The settings given to init, as the config.ini that the other verbs read.
std::string config_text(const Settings& settings, const std::string& run) {
  std::string text =
      "# Settings of this run. `fedserver config print DIR` shows all of them and where they come "
      "from;\n# docs/configuration.md explains them.\n\nrun = " +
      run + "\n";
  std::string training;
  for (const OptionSpec& option : run_options()) {
    if (option.name == "run" || option.name.find('*') != std::string::npos) continue;
    if (settings.given(option.name)) {
      text += option.name + " = " + settings.text_of(option.name) + "\n";
    }
  }
  for (const std::string& name : settings.names_under("training")) {
    training += name + " = " + settings.text_of("training." + name) + "\n";
  }
  if (!training.empty()) text += "\n[training]\n" + training;
  return text;
}

// The initial model as version 0, with control variates of zero if the run keeps any.
Status copy_initial(const std::filesystem::path& from, const std::filesystem::path& to,
                    bool control_variates) {
  const Result<tensor::Reader> model = tensor::Reader::open(from);
  if (!model) return within("read the initial model", model.error());
  if (tensor::has_controls(model->manifest())) {
    return Error{Code::model_mismatch,
                 "take '" + from.string() +
                     "' as the initial model: it carries the control variates of another run",
                 "Write it without them: fedserver export DIR -o initial.safetensors."};
  }
  std::error_code failed;
  std::filesystem::create_directories(to.parent_path(), failed);
  if (failed) return storage_error("create '" + to.parent_path().string() + "'", failed.value());
  const std::filesystem::path temporary = to.string() + ".new";
  if (control_variates) {
    const Result<tensor::Manifest> layout = tensor::with_controls(model->manifest());
    if (!layout) return within("add control variates to the initial model", layout.error());
    const Result<tensor::WrittenFile> copied = tensor::copy_tensors(*model, *layout, temporary);
    if (!copied) return within("copy the initial model", copied.error());
  } else if (Status copied = copy_durably(from, temporary); !copied) {
    return within("copy the initial model", copied.error());
  }
  std::filesystem::rename(temporary, to, failed);
  if (failed) return storage_error("rename the initial model", failed.value());
  return sync_directory(to.parent_path());
}

// Names for the server's certificate. Its own machine always reaches it, for the other verbs.
std::vector<std::string> host_names(const Settings& settings) {
  std::vector<std::string> hosts = settings.list("host");
  if (hosts.empty()) {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    hosts.emplace_back(name);
  }
  for (const char* local : {"localhost", "127.0.0.1", "::1"}) {
    if (std::find(hosts.begin(), hosts.end(), local) == hosts.end()) hosts.emplace_back(local);
  }
  return hosts;
}

Result<int> run_init(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  std::error_code ignored;
  if (std::filesystem::exists(directory.config(), ignored)) {
    return Error{Code::conflict, "'" + directory.root.string() + "' already holds a run",
                 "Choose another directory; nothing was changed."};
  }
  if (!settings.has("initial")) {
    return Error{Code::usage, "the initial model is missing",
                 "Make one with: fedclient model init --model mlp -o initial.safetensors; then "
                 "give it with --initial initial.safetensors."};
  }
  const Result<EngineConfig> config = engine_config(settings);
  if (!config) return config.error();
  const std::filesystem::path model = directory.server() / "models" / BlobStore::model_file(0);
  if (Status copied =
          copy_initial(settings.path("initial"), model, keeps_control_variates(*config));
      !copied) {
    return copied.error();
  }

  const std::vector<std::string> hosts = host_names(settings);
  const std::string url = settings.has("url")
                              ? settings.text("url")
                              : "https://" + hosts.front() + ":" + settings.text_of("port");
  const CertificateRun certificates{{directory.root}, config->run, url};
  if (const auto made = create_certificates(certificates, {hosts, {}}); !made) return made.error();
  const auto kit =
      issue_client_certificate(certificates, {.identity = {IdentityKind::administrator, "local"}});
  if (!kit) return kit.error();
  if (Status written = write_file_atomic(directory.config(), config_text(settings, config->run));
      !written) {
    return written.error();
  }
  std::cout << "run '" << config->run << "' is ready in " << directory.root.string() << "\n"
            << "next:  fedserver cert facility " << directory.root.string()
            << " NAME --samples N   (one kit for each facility)\n"
            << "       fedserver run " << directory.root.string() << "\n";
  return 0;
}

}  // namespace

Command init_command() {
  Command command;
  command.verb = "init";
  command.summary = "Make a run directory: settings, certificates and the initial model";
  command.examples = {
      "fedserver init runs/mnist --run mnist --initial initial.safetensors --host fed.example.org",
      "fedserver init runs/mnist --run mnist --initial initial.safetensors --policy fedavg "
      "--rounds 50"};
  command.options =
      all_of({{{.name = "initial",
                .kind = Kind::path,
                .help = "The initial model, a safetensors file (fedclient model init makes one).",
                .in_files = false},
               {.name = "host",
                .help = "A name or address of this server, for its certificate; may be repeated.",
                .repeated = true,
                .in_files = false},
               {.name = "url",
                .help = "How facilities reach the server; https://HOST:PORT if left out.",
                .in_files = false}},
              run_options()});
  command.arguments = {directory_argument()};
  command.user_file = settings_file;
  command.run = run_init;
  return command;
}

}  // namespace fedqueue
