#include "core/kit/kit.h"

#include <openssl/err.h>

#include "core/base/file.h"
#include "core/config/ini.h"
#include "core/kit/openssl_types.h"
#include "core/kit/pem.h"

namespace fedqueue {
namespace {

const char* const ask_again =
    "Copy the whole kit again, or ask the operator for a new one ('fedserver cert renew DIR "
    "NAME').";

Status check_present(const Kit& kit) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(kit.directory, ignored)) {
    return Error{Code::kit, "there is no kit folder '" + kit.directory.string() + "'",
                 "Name the folder the operator gave you."};
  }
  for (const std::filesystem::path& file : {kit.ca_file, kit.certificate_file, kit.key_file}) {
    if (std::filesystem::exists(file, ignored)) continue;
    Error error{Code::kit,
                "the kit '" + kit.directory.string() + "' has no " + file.filename().string(),
                ask_again};
    if (file == kit.key_file) {
      error.cure =
          "If the key was made here with a certificate request, copy client.key to this "
          "folder. Otherwise: " +
          error.cure;
    }
    return error;
  }
  return {};
}

std::string renewal(const Identity& identity) {
  return "Ask the operator for a new certificate: fedserver cert renew DIR " + identity.name;
}

Error verification_error(int reason, const Kit& kit, X509* certificate, X509* failing,
                         const KitDemand& demand) {
  const std::string file =
      "'" + (failing == certificate ? kit.certificate_file : kit.ca_file).string() + "'";
  const std::string clock = " (this machine's clock says " + calendar_text(demand.now) + ")";
  switch (reason) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {Code::tls_expired,
              file + " expired on " + calendar_text(not_after_of(failing)) + clock,
              renewal(kit.identity)};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {Code::tls_expired,
              file + " is not valid before " + calendar_text(not_before_of(failing)) + clock,
              "Correct the clock of this machine, or wait until then."};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return {Code::tls_untrusted,
              "'" + kit.certificate_file.string() + "' was not issued by the CA in '" +
                  kit.ca_file.string() + "'",
              std::string("The files come from two kits. ") + ask_again};
    case X509_V_ERR_INVALID_PURPOSE:
      return {Code::kit, file + " is not made for a client", ask_again};
    default:
      return {Code::tls_untrusted,
              file + " cannot be used: " + X509_verify_cert_error_string(reason), ask_again};
  }
}

Status verify_chain(const Kit& kit, X509* ca, X509* certificate, const KitDemand& demand) {
  const StorePtr store(X509_STORE_new());
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (!store || !context || X509_STORE_add_cert(store.get(), ca) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) != 1) {
    return Error{Code::internal, "verify the kit: " + openssl_reason(), ""};
  }
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(parameters, demand.now.time_since_epoch().count());
  X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_CLIENT);
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (good) return {};
  X509* failing = X509_STORE_CTX_get_current_cert(context.get());
  return verification_error(X509_STORE_CTX_get_error(context.get()), kit, certificate,
                            failing == nullptr ? certificate : failing, demand);
}

// Other keys are left alone: the file may also be the facility's own settings.
Status read_settings(Kit& kit) {
  const std::filesystem::path path = kit.directory / kit_settings_file(kit.identity.kind);
  if (!std::filesystem::exists(path)) return {};
  Result<std::string> text = read_file(path, 1u << 16);
  if (!text) return Error{Code::kit, text.error().message, text.error().cure};
  Result<std::vector<IniEntry>> entries = parse_ini(*text, path.string());
  if (!entries) return entries.error();
  for (const IniEntry& entry : *entries) {
    if (entry.name == "server") kit.server_url = entry.value;
    if (entry.name == "run") kit.run = entry.value;
    const bool name = entry.name == identity_kind_name(kit.identity.kind);
    if (name && entry.value != kit.identity.name) {
      return Error{Code::kit,
                   path.string() + " line " + std::to_string(entry.line) + " says " + entry.name +
                       " '" + entry.value + "', but the certificate is for '" + kit.identity.name +
                       "'",
                   "Correct the line, or use the kit of '" + entry.value + "'."};
    }
  }
  return {};
}

}  // namespace

std::string kit_settings_file(IdentityKind kind) {
  return std::string(identity_kind_name(kind)) + ".ini";
}

std::string expiry_note(const std::string& name, CalendarTime not_after, CalendarTime now) {
  if (not_after - now > certificate_warning_days) return "";
  const auto days = std::chrono::floor<std::chrono::days>(not_after - now).count();
  std::string note = "the certificate of " + name + " expire" + (days < 0 ? "d" : "s") + " on " +
                     calendar_text(not_after);
  if (days >= 0) note += " (in " + std::to_string(days) + (days == 1 ? " day)" : " days)");
  return note + "; renew it with: fedserver cert renew DIR " + name;
}

Result<Kit> load_kit(const std::filesystem::path& directory, const KitDemand& demand) {
  Kit kit;
  kit.directory = directory;
  kit.ca_file = directory / "ca.crt";
  kit.certificate_file = directory / "client.crt";
  kit.key_file = directory / "client.key";
  if (Status present = check_present(kit); !present) return present.error();

  const auto with_cure = [](Error error) {
    if (error.cure.empty()) error.cure = ask_again;
    return error;
  };
  Result<KeyPtr> key = read_private_key(kit.key_file);
  if (!key) return with_cure(key.error());
  Result<CertificatePtr> certificate = read_certificate(kit.certificate_file);
  if (!certificate) return with_cure(certificate.error());
  Result<CertificatePtr> ca = read_certificate(kit.ca_file);
  if (!ca) return with_cure(ca.error());

  const bool matching = X509_check_private_key(certificate->get(), key->get()) == 1;
  ERR_clear_error();
  if (!matching) {
    return Error{
        Code::kit,
        "'" + kit.key_file.string() + "' is not the key of '" + kit.certificate_file.string() + "'",
        std::string("The files come from two kits. ") + ask_again};
  }
  Result<Identity> identity = identity_of(certificate->get());
  if (!identity) return within(kit.certificate_file.string(), identity.error());
  kit.identity = *identity;
  kit.fingerprint = fingerprint_of(certificate->get());
  kit.not_after = not_after_of(certificate->get());
  if (Status good = verify_chain(kit, ca->get(), certificate->get(), demand); !good) {
    return good.error();
  }
  if (demand.kind && *demand.kind != kit.identity.kind) {
    return Error{Code::identity,
                 "the kit '" + directory.string() + "' is that of the " +
                     identity_kind_name(kit.identity.kind) + " '" + kit.identity.name +
                     "', but this command needs one of kind " + identity_kind_name(*demand.kind),
                 "Name another kit, or ask the operator for one."};
  }
  if (Status read = read_settings(kit); !read) return read.error();
  std::string note = expiry_note(kit.identity.name, kit.not_after, demand.now);
  if (!note.empty()) kit.notes.push_back(std::move(note));
  return kit;
}

}  // namespace fedqueue
