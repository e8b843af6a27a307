#include "fedserver/certificates/kit_writer.h"

#include "core/base/file.h"
#include "core/kit/kit.h"
#include "core/kit/pem.h"

namespace fedqueue {
namespace {

std::string settings_text(const KitContent& content) {
  std::string text = "# How to reach the run. Settings of your own may be added.\n";
  text += (content.server_url.empty() ? "# server = https://HOST:PORT"
                                      : "server = " + content.server_url) +
          "\n";
  text += "run = " + content.run + "\n";
  text +=
      std::string(identity_kind_name(content.identity.kind)) + " = " + content.identity.name + "\n";
  return text;
}

std::string readme_text(const KitContent& content) {
  const std::string kind = identity_kind_name(content.identity.kind);
  std::string text = "This folder lets the " + kind + " '" + content.identity.name +
                     "' take part in the run '" + content.run + "'.\n\n" +
                     "  ca.crt         the authority that both sides trust\n"
                     "  client.crt     who you are; valid until " +
                     calendar_text(not_after_of(content.certificate)) + "\n";
  text += content.key != nullptr
              ? "  client.key     the secret that proves it\n"
              : "  client.key     not in here: add the one that was made with your request\n";
  text +=
      "  " + kit_settings_file(content.identity.kind) +
      std::string(15 - kit_settings_file(content.identity.kind).size(), ' ') +
      "the server's address and your name\n\n"
      "Keep client.key to yourself: mode 0600, a folder of mode 0700, no copy in a repository\n"
      "or a shared project space. Whoever has it can act as you. If it was seen by others, ask\n"
      "the operator to run: fedserver cert revoke DIR " +
      content.identity.name +
      "\n\n"
      "Check the folder:     fedclient kit check .\n"
      "A longer validity:    the operator runs: fedserver cert renew DIR " +
      content.identity.name + "\n";
  return text;
}

}  // namespace

Status write_kit(const std::filesystem::path& directory, const KitContent& content) {
  if (Status made = make_private_directory(directory); !made) return made;
  Result<std::string> ca = read_file(content.ca_file);
  if (!ca) return ca.error();
  if (Status written = write_file_atomic(directory / "ca.crt", *ca); !written) return written;
  if (content.key != nullptr) {
    if (Status written = write_private_key(directory / "client.key", content.key); !written) {
      return written;
    }
  }
  if (Status written = write_certificate(directory / "client.crt", content.certificate); !written) {
    return written;
  }
  const std::filesystem::path settings = directory / kit_settings_file(content.identity.kind);
  if (!std::filesystem::exists(settings)) {
    if (Status written = write_file_atomic(settings, settings_text(content)); !written) {
      return written;
    }
  }
  return write_file_atomic(directory / "README.txt", readme_text(content));
}

}  // namespace fedqueue
