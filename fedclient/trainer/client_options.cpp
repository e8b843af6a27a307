#include "fedclient/trainer/client_options.h"

#include <algorithm>
#include <cctype>

#include "core/kit/kit.h"
#include "fedclient/data/plugin.h"

namespace fedqueue {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace

std::vector<OptionSpec> connection_options() {
  return {{.name = "run", .help = "Name of the run.", .value_name = "NAME"},
          {.name = "server", .help = "Address of the server.", .value_name = "https://HOST:PORT"},
          {.name = "facility",
           .help = "Name of this facility, as in its certificate.",
           .value_name = "NAME"},
          {.name = "kit",
           .kind = Kind::path,
           .help = "Directory with this facility's certificate and key.",
           .value_name = "DIR"},
          {.name = "proxy",
           .help = "Proxy to the server; 'direct' for none; as https_proxy says if unset.",
           .value_name = "URL"}};
}

std::vector<OptionSpec> computing_options() {
  return {{.name = "dataset",
           .kind = Kind::path,
           .built_in = kDatasetDirectoryDefault,
           .help = "Directory of the dataset, in one of the formats of docs/training.md.",
           .value_name = "DIR"},
          {.name = "data_plugin",
           .kind = Kind::path,
           .help = "Shared object that reads the dataset (fedqueue/data_plugin.h).",
           .value_name = "FILE.so"},
          {.name = "model_file",
           .kind = Kind::path,
           .help = "The run's TorchScript file, for runs that were made with one.",
           .value_name = "FILE"},
          {.name = "device",
           .built_in = "cpu",
           .help = "Where to compute.",
           .choices = {"cpu", "cuda"}},
          {.name = "threads",
           .kind = Kind::integer,
           .built_in = "0",
           .help = "Threads per rank; 0 leaves it to OMP_NUM_THREADS.",
           .minimum = 0,
           .maximum = 4096}};
}

Result<Dataset> chosen_dataset(const Settings& settings, Split split) {
  const std::filesystem::path directory = settings.path("dataset");
  return settings.has("data_plugin")
             ? load_with_plugin(settings.path("data_plugin"), directory, split)
             : load_dataset(directory, split);
}

namespace {

// What was said outside the kit; empty if nobody said it.
std::string said(const Settings& settings, const Environment& environment,
                 const std::string& name) {
  if (settings.origin(name) != "command line") {
    const std::optional<std::string> handed_over = environment("FED_" + upper(name));
    if (handed_over && !handed_over->empty()) return *handed_over;
  }
  return settings.has(name) ? settings.text(name) : "";
}

Error not_set(const char* name) {
  return {Code::usage, std::string("connect to the server: --") + name + " is not set",
          std::string("Say it with --") + name + ", in the configuration, or as #SBATCH --fed-" +
              name + " where the plugin is installed."};
}

}  // namespace

Result<Connection> find_connection(const Settings& settings, const Environment& environment,
                                   const Log& log) {
  const std::string directory = said(settings, environment, "kit");
  if (directory.empty()) return not_set("kit");
  Result<Kit> kit = load_kit(directory);
  if (!kit) return kit.error();
  const auto chosen = [&](const char* name, const std::string& of_the_kit) {
    const std::string text = said(settings, environment, name);
    return text.empty() ? of_the_kit : text;
  };
  Connection connection;
  connection.name = kit->identity.name;
  connection.notes = kit->notes;
  const std::string facility = chosen("facility", connection.name);
  if (kit->identity.kind == IdentityKind::facility && facility != connection.name) {
    return Error{Code::identity,
                 "connect to the server: the kit in " + directory + " is for " + connection.name +
                     ", but the facility is set to " + facility,
                 "Use this facility's own kit, or leave --facility out."};
  }
  LinkConfig& config = connection.link;
  config.run = RunId(chosen("run", kit->run));
  if (config.run.empty()) return not_set("run");
  if (!is_name(config.run.str())) {
    return Error{Code::usage, "connect to the server: '" + config.run.str() + "' is no run's name",
                 "Names are 1 to 63 of the characters a-z, 0-9 and '-'."};
  }
  config.server_url = chosen("server", kit->server_url);
  if (config.server_url.empty()) return not_set("server");
  config.ca = kit->ca_file;
  config.certificate = kit->certificate_file;
  config.key = kit->key_file;
  if (settings.has("proxy")) config.proxy = settings.text("proxy");
  config.log = log;
  return connection;
}

}  // namespace fedqueue
