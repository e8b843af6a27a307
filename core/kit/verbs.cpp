#include "core/kit/verbs.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/kit/kit.h"
#include "core/kit/request.h"

namespace fedqueue {
namespace {

Result<int> check(const Settings& settings) {
  const std::string folder = settings.argument(0);
  Result<Kit> kit = load_kit(folder.empty() ? "." : folder);
  if (!kit) return kit.error();
  for (const std::string& note : kit->notes) std::cerr << "note: " << note << "\n";
  const std::string kind = identity_kind_name(kit->identity.kind);
  if (settings.text("format") == "json") {
    const nlohmann::ordered_json json = {{"kind", kind},
                                         {"name", kit->identity.name},
                                         {"run", kit->run},
                                         {"server", kit->server_url},
                                         {"not_after", calendar_text(kit->not_after)},
                                         {"fingerprint", kit->fingerprint}};
    std::cout << json.dump(2) << "\n";
    return 0;
  }
  std::cout << "This is the kit of the " << kind << " '" << kit->identity.name << "', valid until "
            << calendar_text(kit->not_after) << ".\n";
  if (!kit->server_url.empty()) std::cout << "It reaches " << kit->server_url << ".\n";
  return 0;
}

Result<int> request(const Settings& settings) {
  const std::string name = settings.argument(0);
  Result<std::filesystem::path> made = create_request(settings.path("output"), name);
  if (!made) return made.error();
  std::cout << "Send " << made->string() << " to the operator, who signs it with:\n"
            << "  fedserver cert facility DIR " << name << " --samples N --csr client.csr\n"
            << "and put what comes back into the same folder. The key next to it stays here.\n";
  return 0;
}

}  // namespace

std::vector<Command> kit_commands(const std::string& program) {
  Command check_command;
  check_command.verb = "kit check";
  check_command.summary = "Check a kit without contacting the server.";
  check_command.examples = {program + " kit check kits/site-a",
                            program + " kit check kits/site-a --format json"};
  check_command.arguments = {
      {.name = "DIR", .help = "The kit; the current folder if left out.", .required = false}};
  check_command.reads = true;
  check_command.run = check;

  Command request_command;
  request_command.verb = "kit request";
  request_command.summary = "Make a key here and a request for the operator to sign.";
  request_command.details = "So the private key never travels. An existing key is used again.";
  request_command.examples = {program + " kit request site-a -o kits/site-a"};
  request_command.arguments = {{.name = "NAME", .help = "The facility: 1 to 63 of a-z, 0-9, -."}};
  request_command.options = {{.name = "output",
                              .kind = Kind::path,
                              .built_in = ".",
                              .help = "The folder for client.key and client.csr.",
                              .short_form = 'o',
                              .value_name = "DIR",
                              .in_files = false}};
  request_command.run = request;
  return {check_command, request_command};
}

}  // namespace fedqueue
