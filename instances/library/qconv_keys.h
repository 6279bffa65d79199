// Compares keys of problems, whatever their spelling: the order of fields is free, those with their default may be
// omitted, and one number may stand for several. The rules of each op are in the table. Private to the launcher.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <locale>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "qconv_parameters.h"
#include "qconv_table.h"
#include "qconv_transposed.h"

namespace qconv {

// Returns the texts between separators.
inline std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    for (char each : text) {
        if (each == separator) parts.emplace_back();
        else parts.back() += each;
    }
    return parts;
}

inline std::string stripped(const std::string& text) {
    static const char* const blank = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
    const size_t first = text.find_first_not_of(blank);
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// Returns an integer without leading zeros.
inline std::string read_integer(const std::string& name, const std::string& text) {
    const bool is_negative = text[0] == '-';
    const std::string digits = text.substr(is_negative);
    if (digits.empty() || digits.size() > 10 || digits.find_first_not_of("0123456789") != std::string::npos)
        refuse("the key has " + name + "=" + text.substr(0, 100) + ": give an integer of at most ten digits");
    const std::string number = std::to_string(atoll(digits.c_str()));
    return is_negative && number != "0" ? "-" + number : number;
}

// Returns integers with commas between them, `count` of them where one stands for all; 0: as many as there are.
inline std::string read_integers(const std::string& name, const std::string& text, unsigned count) {
    const std::vector<std::string> parts = split(text, ',');
    if (count > 0 && parts.size() != 1 && parts.size() != count)
        refuse("the key has " + name + "=" + text.substr(0, 100) + ": give one integer or " + std::to_string(count));
    std::string all;
    for (unsigned i = 0; i < (count > 0 ? count : parts.size()); ++i)
        all += (i > 0 ? "," : "") + read_integer(name, parts[parts.size() == 1 ? 0 : i]);
    return all;
}

// Returns a number so that equal ones are equal texts.
inline std::string read_real(const std::string& name, const std::string& text) {
    std::istringstream stream(text);
    stream.imbue(std::locale::classic());
    double value = 0;
    if (!(stream >> value)) refuse("the key has " + name + "=" + text.substr(0, 100) + ": give a number");
    char bytes[8];
    memcpy(bytes, &value, sizeof bytes);
    return std::string(bytes, sizeof bytes);
}

// Returns the operands of an expression, such as int32*8!0..7, without leading zeros and empty items.
inline std::string read_operands(const std::string& text) {
    std::string all;
    for (const std::string& operand : split(text, ',')) {
        if (operand.empty()) continue;
        if (!all.empty()) all += ',';
        const auto is_digit = [&](size_t i) { return i < operand.size() && operand[i] >= '0' && operand[i] <= '9'; };
        for (size_t i = 0; i < operand.size(); ++i) {
            if (i > 0 && strchr("*!.-", operand[i - 1]) != nullptr)
                while (operand[i] == '0' && is_digit(i + 1)) ++i;
            all += operand[i];
        }
    }
    return all;
}

inline std::string value_of(const KeyFields& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
}

// Returns the default of a field. An op's fields come before those whose default refers to them.
inline std::string standard_of(const KeyField& field, const KeyFields& fields) {
    const std::string text = field.standard;
    if (text.compare(0, 1, "=") == 0) return value_of(fields, text.substr(1));
    if (text.compare(0, 2, "0*") != 0) return text;
    std::string zeros = "0";
    for (char each : value_of(fields, text.substr(2))) zeros += each == ',' ? ",0" : "";
    return zeros;
}

class Spelling {
  public:
    explicit Spelling(const std::string& key) : key_(key), normal_(normal_of(key)) {}

    // True for a key of the table that is of the same problem.
    bool names(const char* key) const { return key_ == key || normal_ == normal_of(key); }

  private:
    // Returns a text that is equal for keys of equal problems.
    static std::string normal_of(const std::string& key) {
        const std::vector<std::string> parts = parts_of(key);
        if (parts.size() == 1) return normal_of_part(key);
        std::string all;
        for (const std::string& part : parts) all += normal_of_part(part) + "+";
        return all;
    }

    // Returns the keys that a key joins. The name of an op follows each plus between two; that of a sum within an
    // expression is followed by an index.
    static std::vector<std::string> parts_of(const std::string& key) {
        std::vector<std::string> parts;
        for (const std::string& text : split(key, '+')) {
            const std::string name = op_of(text);
            const auto is_of_name = [](unsigned char each) { return std::isalnum(each) || each == '_'; };
            const bool has_fields = text.find(':') != std::string::npos;
            if (parts.empty() || name.empty() || (has_fields && std::all_of(name.begin(), name.end(), is_of_name)))
                parts.push_back(text);
            else
                parts.back() += "+" + text;
        }
        return parts;
    }

    static std::string op_of(const std::string& part) { return split(stripped(part), ':')[0]; }

    static const Grammar* grammar_of(const std::string& op) {
        for (const Grammar& grammar : grammars)
            if (op == grammar.op) return &grammar;
        return nullptr;
    }

    static std::string normal_of_part(const std::string& part) {
        std::string op = op_of(part);
        const Grammar* const grammar = grammar_of(op);
        if (grammar == nullptr) return stripped(part);  // of an op that this library has no problem of
        KeyFields fields = fields_of(*grammar, stripped(part));
        if (op == TRANSPOSED) op = "conv2d", fields = phases_of(fields);
        std::string all = op;
        for (const auto& field : fields) all += ":" + field.first + "=" + field.second;
        return all;
    }

    static KeyFields fields_of(const Grammar& grammar, const std::string& part) {
        KeyFields fields;
        std::vector<std::string> given = split(part, ':');
        given.erase(given.begin());
        for (const std::string& one : given) {
            const size_t equals = one.find('=');
            const std::string name = one.substr(0, equals);
            const KeyField& field = field_of(grammar, name);
            if (fields.count(name) != 0) refuse("the key has " + name + " twice: leave one out");
            if ((equals == std::string::npos) != (field.spelled == Spelled::flag))
                refuse("the key has " + one.substr(0, 100) + ": " + name +
                       (field.spelled == Spelled::flag ? " is a flag and takes no value" : " needs a value"));
            fields[name] = read(field, equals == std::string::npos ? "set" : one.substr(equals + 1));
        }
        for (const KeyField& field : grammar.fields) {
            const bool is_meant = field.where == nullptr || value_of(fields, field.where) == field.is_that;
            if (field.standard != nullptr && is_meant && fields.count(field.name) == 0)
                fields[field.name] = read(field, standard_of(field, fields));
        }
        return fields;
    }

    static const KeyField& field_of(const Grammar& grammar, const std::string& name) {
        std::string known, last;
        for (const KeyField& field : grammar.fields) {
            if (name == field.name) return field;
            if (last != field.name) known += (known.empty() ? "" : ", ") + std::string(field.name);
            last = field.name;
        }
        refuse("the key has " + name.substr(0, 100) + ", which is no field of " + grammar.op + ": it has " + known);
    }

    static std::string read(const KeyField& field, const std::string& text) {
        switch (field.spelled) {
            case Spelled::flag: return text;
            case Spelled::integer: return read_integer(field.name, text);
            case Spelled::integers: {
                const bool may_be_none = field.standard != nullptr && *field.standard == 0;
                return text.empty() && may_be_none ? text : read_integers(field.name, text, field.count);
            }
            case Spelled::real: return read_real(field.name, text);
            case Spelled::operands: return read_operands(text);
            default: return text;
        }
    }

    std::string key_, normal_;
};

}  // namespace qconv
