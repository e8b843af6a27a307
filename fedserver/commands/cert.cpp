// fedserver cert: certificates and kits of a run.
#include <iostream>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/kit/kit.h"
#include "fedserver/certificates/commands.h"
#include "fedserver/commands/commands.h"

namespace fedqueue {
namespace {

// The run, with the URL its operator's kit has: all kits name the same server.
Result<CertificateRun> certificate_run(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  const Result<EngineConfig> config = engine_config(settings);
  if (!config) {
    return within("'" + directory.root.string() + "' holds no run", config.error());
  }
  CertificateRun run{{directory.root}, config->run, ""};
  if (settings.has("url")) {
    run.server_url = settings.text("url");
  } else if (const Result<Kit> kit = load_kit(directory.operator_kit()); kit) {
    run.server_url = kit->server_url;
  }
  return run;
}

int show(const Settings& settings, const CertificateReport& report) {
  std::cout << (settings.text("format") == "json" ? report.json + "\n" : report.text);
  for (const std::string& note : report.notes) std::cerr << note << "\n";
  return 0;
}

std::chrono::days lifetime(const Settings& settings) {
  return std::chrono::days(settings.integer("days"));
}

using Verb = Result<CertificateReport> (*)(const CertificateRun&, const Settings&);

// One `cert` verb: its arguments after DIR, its options, and what it does.
Command cert_command(std::string verb, std::string summary, std::vector<std::string> examples,
                     std::vector<ArgumentSpec> arguments, std::vector<OptionSpec> options,
                     Verb verb_function) {
  Command command;
  command.verb = "cert " + std::move(verb);
  command.summary = std::move(summary);
  command.examples = std::move(examples);
  command.options = all_of({hidden_run_options(), std::move(options)});
  command.arguments = {{.name = "DIR", .help = "The run directory."}};
  for (ArgumentSpec& argument : arguments) command.arguments.push_back(std::move(argument));
  command.reads = true;
  command.user_file = settings_file;
  command.run = [verb_function](const Settings& settings) -> Result<int> {
    const Result<CertificateRun> run = certificate_run(settings);
    if (!run) return run.error();
    const Result<CertificateReport> report = verb_function(*run, settings);
    if (!report) return report.error();
    return show(settings, *report);
  };
  return command;
}

OptionSpec days_option() {
  return {.name = "days",
          .kind = Kind::integer,
          .built_in = "365",
          .help = "How long the certificate is valid.",
          .minimum = 1,
          .maximum = 3650,
          .in_files = false};
}

OptionSpec output_option() {
  return {.name = "output",
          .kind = Kind::path,
          .help = "The kit's folder, if not in the run directory.",
          .short_form = 'o',
          .in_files = false};
}

OptionSpec csr_option() {
  return {.name = "csr",
          .kind = Kind::path,
          .help = "A signing request made there, so that the private key never travels.",
          .in_files = false};
}

OptionSpec url_option() {
  return {.name = "url", .help = "How the server is reached, for the kit.", .in_files = false};
}

Result<CertificateReport> issue(const CertificateRun& run, const Settings& settings,
                                IdentityKind kind) {
  ClientCertificateOrder order{.identity = {kind, settings.argument(1)}};
  if (kind == IdentityKind::facility) {
    if (settings.has("samples")) order.samples = settings.integer("samples");
    if (settings.has("csr")) order.request_file = settings.path("csr");
  }
  if (settings.has("output")) order.output = settings.path("output");
  order.lifetime = lifetime(settings);
  return issue_client_certificate(run, order);
}

Result<CertificateReport> issue_facility(const CertificateRun& run, const Settings& settings) {
  return issue(run, settings, IdentityKind::facility);
}
Result<CertificateReport> issue_operator(const CertificateRun& run, const Settings& settings) {
  return issue(run, settings, IdentityKind::administrator);
}
Result<CertificateReport> issue_observer(const CertificateRun& run, const Settings& settings) {
  return issue(run, settings, IdentityKind::observer);
}

Result<CertificateReport> issue_server(const CertificateRun& run, const Settings& settings) {
  return issue_server_certificate(run,
                                  {settings.list("host"), settings.list("ip"), lifetime(settings)});
}

Result<CertificateReport> renew(const CertificateRun& run, const Settings& settings) {
  RenewalOrder order;
  order.name = settings.argument(1);
  if (settings.has("kind")) order.kind = settings.text("kind");
  if (settings.has("output")) order.output = settings.path("output");
  if (settings.has("csr")) order.request_file = settings.path("csr");
  order.lifetime = lifetime(settings);
  order.revoke_old = settings.flag("revoke_old");
  return renew_client_certificate(run, order);
}

Result<CertificateReport> revoke(const CertificateRun& run, const Settings& settings) {
  return revoke_certificates(run, settings.argument(1),
                             settings.has("kind") ? settings.text("kind") : "");
}

Result<CertificateReport> change_samples(const CertificateRun& run, const Settings& settings) {
  return change_facility_samples(run, settings.argument(1), settings.integer("samples"));
}

Result<CertificateReport> list(const CertificateRun& run, const Settings&) {
  return list_certificates(run);
}

}  // namespace

std::vector<Command> cert_commands() {
  const ArgumentSpec name{.name = "NAME", .help = "A name, [a-z0-9-]+."};
  const OptionSpec kind{.name = "kind",
                        .help = "Needed only if several kinds have that name.",
                        .choices = {"facility", "operator", "observer", "server"},
                        .in_files = false};
  const OptionSpec samples{.name = "samples",
                           .kind = Kind::integer,
                           .help = "Training samples the facility owns: its share, fixed here.",
                           .minimum = 1,
                           .in_files = false};
  const OptionSpec hosts{
      .name = "host", .help = "A name of the server.", .repeated = true, .in_files = false};
  const OptionSpec addresses{
      .name = "ip", .help = "An address of the server.", .repeated = true, .in_files = false};
  const OptionSpec revoke_old{.name = "revoke_old",
                              .kind = Kind::flag,
                              .help = "Revoke the certificates it replaces.",
                              .in_files = false};
  std::vector<Command> commands = {
      cert_command(
          "facility", "Enrol a facility and make its kit",
          {"fedserver cert facility runs/mnist site-a --samples 20000",
           "fedserver cert facility runs/mnist site-a --samples 20000 --csr client.csr -o kit"},
          {name}, {samples, csr_option(), output_option(), days_option(), url_option()},
          issue_facility),
      cert_command("operator", "Make an operator's kit: may stop the run",
                   {"fedserver cert operator runs/mnist anna -o kit"}, {name},
                   {output_option(), days_option(), url_option()}, issue_operator),
      cert_command("observer", "Make an observer's kit: may read everything",
                   {"fedserver cert observer runs/mnist dashboard -o kit"}, {name},
                   {output_option(), days_option(), url_option()}, issue_observer),
      cert_command("server", "Make a new server certificate, read without a restart",
                   {"fedserver cert server runs/mnist --host fed.example.org --ip 192.0.2.1"}, {},
                   {hosts, addresses, days_option()}, issue_server),
      cert_command("renew", "A new certificate for the same name",
                   {"fedserver cert renew runs/mnist site-a -o kit"}, {name},
                   {kind, csr_option(), output_option(), days_option(), url_option(), revoke_old},
                   renew),
      cert_command(
          "revoke", "Refuse a certificate from now on",
          {"fedserver cert revoke runs/mnist site-a", "fedserver cert revoke runs/mnist 3f2a99c1"},
          {{.name = "NAME|FINGERPRINT", .help = "Whose, or which."}}, {kind}, revoke),
      cert_command("samples", "Change a facility's sample count, deliberately",
                   {"fedserver cert samples runs/mnist site-a --samples 25000"}, {name}, {samples},
                   change_samples),
      cert_command(
          "list", "All certificates and when they expire",
          {"fedserver cert list runs/mnist", "fedserver cert list runs/mnist --format json"}, {},
          {}, list)};
  return commands;
}

}  // namespace fedqueue
