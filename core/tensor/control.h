// Control variates beside the parameters of a model: for each float tensor that is no buffer, an
// f32 tensor of the same shape named `fedqueue.control.PARAMETER`. A model holds the server's c, an
// update the difference c_k' − c_k.
//
// Thread safety: pure functions on manifests; copy_tensors() writes one file.
// Source: Karimireddy et al., "SCAFFOLD", arXiv 1910.06378.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/tensor/file.h"
#include "core/tensor/manifest.h"

namespace fedqueue::tensor {

// The name of a parameter's control variate.
[[nodiscard]] std::string control_name(std::string_view parameter);
[[nodiscard]] bool has_controls(const Manifest& model);

// The same model laid out with a control variate for every parameter, or with none.
[[nodiscard]] Result<Manifest> with_controls(const Manifest& model);
[[nodiscard]] Result<Manifest> without_controls(const Manifest& model);

// The control variates of such a model alone, whether it has them or not: f32 throughout.
[[nodiscard]] Result<Manifest> controls_of(const Manifest& model);

// Writes the tensors of `layout` to a file, copied by name and zero where `from` has none of that
// name, in pieces and durably. REQUIRES: tensors of one name have the same type and shape.
Result<WrittenFile> copy_tensors(const Reader& from, const Manifest& layout,
                                 const std::filesystem::path& to);

}  // namespace fedqueue::tensor
