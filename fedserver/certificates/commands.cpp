#include "fedserver/certificates/commands.h"

#include <algorithm>

#include "core/base/ids.h"
#include "core/base/text.h"
#include "core/kit/pem.h"
#include "core/kit/request.h"
#include "fedserver/certificates/authority.h"
#include "fedserver/certificates/kit_writer.h"
#include "fedserver/certificates/registry.h"

namespace fedqueue {
namespace {

struct Office {
  Authority authority;
  Registry registry;
};

Error no_run_here(const CertificateRun& run, const std::filesystem::path& missing) {
  return {Code::usage,
          "'" + run.files.run_directory.string() + "' is no run directory: there is no '" +
              missing.string() + "'",
          "Name the folder that 'fedserver init' made."};
}

Result<Registry> open_registry(const CertificateRun& run) {
  if (!std::filesystem::exists(run.files.registry())) {
    return no_run_here(run, run.files.registry());
  }
  return Registry::open(run.files.registry());
}

Result<Office> open_office(const CertificateRun& run) {
  Result<Registry> registry = open_registry(run);
  if (!registry) return registry.error();
  Result<Authority> authority = Authority::open(run.files.authority());
  if (!authority) return authority.error();
  return Office{std::move(*authority), std::move(*registry)};
}

CertificateRecord record_of(const IssuedCertificate& issued, const std::string& kind,
                            const std::string& name, CalendarTime now) {
  return {issued.fingerprint, kind, name,        issued.serial, issued.not_before,
          issued.not_after,   now,  std::nullopt};
}

std::vector<CertificateRecord> usable_of(const std::vector<CertificateRecord>& all,
                                         const Identity& identity, CalendarTime now) {
  std::vector<CertificateRecord> usable;
  for (const CertificateRecord& record : all) {
    if (record.kind == identity_kind_name(identity.kind) && record.name == identity.name &&
        !record.revoked_at && record.not_after > now) {
      usable.push_back(record);
    }
  }
  return usable;
}

std::string titled(const Identity& identity) {
  return std::string(identity_kind_name(identity.kind)) + " '" + identity.name + "'";
}

// What the holder gets, and what the registry keeps.
struct KitOrder {
  Identity identity;
  std::filesystem::path output;
  std::filesystem::path request_file;
  std::chrono::days lifetime;
};

Result<CertificateRecord> issue_kit(const CertificateRun& run, Office& office,
                                    const KitOrder& order) {
  const bool own_key = order.request_file.empty();
  Result<KeyPtr> key = own_key ? generate_key() : read_request(order.request_file);
  if (!key) return key.error();
  Result<IssuedCertificate> issued =
      office.authority.issue_client(order.identity, key->get(), {run.now, order.lifetime});
  if (!issued) return issued.error();
  const CertificateRecord record =
      record_of(*issued, identity_kind_name(order.identity.kind), order.identity.name, run.now);
  if (Status kept = office.registry.record(record); !kept) return kept.error();
  const KitContent content{order.identity,
                           office.authority.certificate_file(),
                           issued->certificate.get(),
                           own_key ? key->get() : nullptr,
                           run.run,
                           run.server_url};
  if (Status written = write_kit(order.output, content); !written) {
    return within("write the kit of " + titled(order.identity), written.error());
  }
  return record;
}

std::string handed_over(const std::string& what, const Identity& identity,
                        const CertificateRecord& record, const std::filesystem::path& output,
                        bool own_key) {
  return what + " the " + titled(identity) + ", valid until " + calendar_text(record.not_after) +
         ": " + output.string() +
         (own_key ? "/ (it holds the private key: hand it over encrypted, and delete it here)"
                  : "/ (without the private key, which stayed at the facility)");
}

Status enrol(const CertificateRun& run, Office& office, const ClientCertificateOrder& order) {
  const FacilityId facility(order.identity.name);
  if (order.samples) {
    if (*order.samples <= 0) {
      return Error{Code::usage,
                   "the samples of '" + facility.str() + "' are " + std::to_string(*order.samples) +
                       "; they must be above 0",
                   ""};
    }
    return office.registry.enrol(facility, *order.samples, run.now);
  }
  Result<std::optional<EnrolledFacility>> known = office.registry.facility(facility);
  if (!known) return known.error();
  if (*known) return {};
  return Error{Code::usage, "the facility '" + facility.str() + "' is new and has no sample count",
               "Say how many samples it trains on, which fixes its share: --samples N"};
}

Status record_server_certificate(const CertificateRun& run, Office& office,
                                 const ServerCertificateOrder& order, CertificateReport& report) {
  Result<KeyPtr> key = generate_key();
  if (!key) return key.error();
  Result<IssuedCertificate> issued = office.authority.issue_server(
      order.host_names, order.addresses, key->get(), {run.now, order.lifetime});
  if (!issued) return issued.error();
  const CertificateRecord record = record_of(*issued, "server", "server", run.now);
  if (Status kept = office.registry.record(record); !kept) return kept;
  if (Status written = write_private_key(run.files.server_key(), key->get()); !written) {
    return written;
  }
  if (Status written = write_certificate(run.files.server_certificate(), issued->certificate.get());
      !written) {
    return written;
  }
  std::vector<std::string> all = order.host_names;
  all.insert(all.end(), order.addresses.begin(), order.addresses.end());
  report = change_report("Issued the server's certificate for " + join(all, ", ") +
                             ", valid until " + calendar_text(record.not_after),
                         {record}, run.now);
  return {};
}

// The identity that a name to be renewed means.
Result<Identity> renewed_identity(const std::vector<CertificateRecord>& all,
                                  const RenewalOrder& order) {
  std::optional<Identity> found;
  for (const CertificateRecord& record : all) {
    const std::optional<IdentityKind> kind = identity_kind_named(record.kind);
    if (!kind || record.name != order.name) continue;
    if (!order.kind.empty() && order.kind != record.kind) continue;
    if (found && found->kind != *kind) {
      return Error{Code::conflict,
                   "the name '" + order.name + "' has certificates of several kinds",
                   "Say which with --kind."};
    }
    found = Identity{*kind, order.name};
  }
  if (found) return *found;
  return Error{Code::not_found, "no certificate was ever issued to '" + order.name + "'",
               "'fedserver cert list DIR' shows all; a new one: fedserver cert facility DIR " +
                   order.name + " --samples N"};
}

}  // namespace

std::filesystem::path CertificateFiles::kit(const Identity& identity) const {
  switch (identity.kind) {
    case IdentityKind::facility:
      return run_directory / "facilities" / identity.name;
    case IdentityKind::administrator:
      return run_directory / "operators" / identity.name;
    case IdentityKind::observer:
      return run_directory / "observers" / identity.name;
  }
  return run_directory / identity.name;
}

Result<CertificateReport> create_certificates(const CertificateRun& run,
                                              const ServerCertificateOrder& order) {
  if (Status made = make_private_directory(run.files.server()); !made) return made.error();
  Result<Authority> authority =
      Authority::create(run.files.authority(), run.run, {run.now, std::chrono::days{3650}});
  if (!authority) return authority.error();
  Result<Registry> registry = Registry::open(run.files.registry());
  if (!registry) return registry.error();
  Office office{std::move(*authority), std::move(*registry)};
  CertificateReport report;
  if (Status done = record_server_certificate(run, office, order, report); !done) {
    return done.error();
  }
  return report;
}

Result<CertificateReport> issue_server_certificate(const CertificateRun& run,
                                                   const ServerCertificateOrder& order) {
  Result<Office> office = open_office(run);
  if (!office) return office.error();
  CertificateReport report;
  if (Status done = record_server_certificate(run, *office, order, report); !done) {
    return done.error();
  }
  return report;
}

Result<CertificateReport> issue_client_certificate(const CertificateRun& run,
                                                   const ClientCertificateOrder& order) {
  Result<Office> office = open_office(run);
  if (!office) return office.error();
  const Identity& identity = order.identity;
  if (!is_name(identity.name)) {
    return Error{Code::usage,
                 "'" + identity.name + "' cannot be a name; it must be 1 to 63 of a-z, 0-9 and -",
                 ""};
  }
  Result<std::vector<CertificateRecord>> all = office->registry.list();
  if (!all) return all.error();
  if (const auto usable = usable_of(*all, identity, run.now); !usable.empty()) {
    return Error{Code::conflict,
                 "the " + titled(identity) + " has a certificate that is valid until " +
                     calendar_text(usable.back().not_after),
                 "To replace it: fedserver cert renew " + run.files.run_directory.string() + " " +
                     identity.name};
  }
  if (identity.kind == IdentityKind::facility) {
    if (Status enrolled = enrol(run, *office, order); !enrolled) return enrolled.error();
  }
  const std::filesystem::path output =
      order.output.empty() ? run.files.kit(identity) : order.output;
  Result<CertificateRecord> record =
      issue_kit(run, *office, {identity, output, order.request_file, order.lifetime});
  if (!record) return record.error();
  return change_report(
      handed_over("Made the kit of", identity, *record, output, order.request_file.empty()),
      {*record}, run.now);
}

Result<CertificateReport> renew_client_certificate(const CertificateRun& run,
                                                   const RenewalOrder& order) {
  Result<Office> office = open_office(run);
  if (!office) return office.error();
  Result<std::vector<CertificateRecord>> all = office->registry.list();
  if (!all) return all.error();
  Result<Identity> identity = renewed_identity(*all, order);
  if (!identity) return identity.error();
  const std::filesystem::path output =
      order.output.empty() ? run.files.kit(*identity) : order.output;
  Result<CertificateRecord> record =
      issue_kit(run, *office, {*identity, output, order.request_file, order.lifetime});
  if (!record) return record.error();
  std::vector<CertificateRecord> changed = {*record};
  // Only now: a failure before this point leaves the holder with a certificate that works.
  if (order.revoke_old) {
    for (const CertificateRecord& old : usable_of(*all, *identity, run.now)) {
      Result<std::vector<CertificateRecord>> revoked =
          office->registry.revoke(old.fingerprint, old.kind, run.now);
      if (!revoked) return revoked.error();
      changed.insert(changed.end(), revoked->begin(), revoked->end());
    }
  }
  return change_report(
      handed_over("Renewed the kit of", *identity, *record, output, order.request_file.empty()),
      changed, run.now);
}

Result<CertificateReport> revoke_certificates(const CertificateRun& run,
                                              const std::string& name_or_fingerprint,
                                              const std::string& kind) {
  Result<Registry> registry = open_registry(run);
  if (!registry) return registry.error();
  Result<std::vector<CertificateRecord>> revoked =
      registry->revoke(name_or_fingerprint, kind, run.now);
  if (!revoked) return revoked.error();
  const std::size_t count = revoked->size();
  const std::string sentence =
      count == 0
          ? "Nothing to do: '" + name_or_fingerprint + "' is revoked already"
          : "Revoked " + std::to_string(count) +
                (count == 1 ? " certificate of " : " certificates of ") + revoked->front().kind +
                " '" + revoked->front().name + "'; a running server refuses " +
                (count == 1 ? "it" : "them") + " from now on";
  return change_report(sentence, *revoked, run.now);
}

Result<CertificateReport> change_facility_samples(const CertificateRun& run,
                                                  const std::string& facility,
                                                  std::int64_t samples) {
  if (samples <= 0) {
    return Error{Code::usage,
                 "the samples of '" + facility + "' are " + std::to_string(samples) +
                     "; they must be above 0",
                 ""};
  }
  Result<Registry> registry = open_registry(run);
  if (!registry) return registry.error();
  if (Status changed = registry->change_samples(FacilityId(facility), samples); !changed) {
    return changed.error();
  }
  return change_report("The facility '" + facility + "' counts with " + std::to_string(samples) +
                           " samples after the server's next start",
                       {}, run.now);
}

Result<CertificateReport> list_certificates(const CertificateRun& run) {
  Result<Registry> registry = open_registry(run);
  if (!registry) return registry.error();
  Result<std::vector<CertificateRecord>> certificates = registry->list();
  if (!certificates) return certificates.error();
  Result<std::vector<EnrolledFacility>> facilities = registry->facilities();
  if (!facilities) return facilities.error();
  return list_report(*certificates, *facilities, run.now);
}

}  // namespace fedqueue
