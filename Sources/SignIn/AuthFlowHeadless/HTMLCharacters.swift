import AuthFlowJSON

/// Decodes the character references in a page's text and attribute values.
enum HTMLCharacters {
    /// Text with its character references replaced; empty if it has too many combining marks.
    static func text(_ bytes: ArraySlice<UInt8>) -> String { comparable(replacingReferences(bytes, isValue: false)) }

    /// An attribute value with its character references replaced; empty if it has too many combining marks.
    static func value(_ bytes: ArraySlice<UInt8>) -> String { comparable(replacingReferences(bytes, isValue: true)) }

    /// The text; empty if it has too many combining marks, which would make comparisons slow. No form needs such a text.
    static func comparable(_ text: String) -> String { text.hasTooManyCombiningMarks ? "" : text }

    /// The HTML Standard, section 13.2.5.72, "Character reference state".
    private static func replacingReferences(_ bytes: ArraySlice<UInt8>, isValue: Bool) -> String {
        guard bytes.contains(where: { $0 == UInt8(ascii: "&") || $0 == 0 }) else {
            return String(decoding: bytes, as: UTF8.self)
        }
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count)
        var rest = bytes
        while let byte = rest.first {
            if byte == UInt8(ascii: "&"), let (character, length) = reference(rest.dropFirst(), isValue: isValue) {
                text += String(character).utf8
                rest = rest.dropFirst(1 + length)
            } else {
                if byte == 0 { text += "\u{FFFD}".utf8 } else { text.append(byte) }
                rest = rest.dropFirst()
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The character that a reference represents, and the number of bytes after the ampersand; nil if this is not a reference.
    private static func reference(_ bytes: ArraySlice<UInt8>, isValue: Bool) -> (Unicode.Scalar, Int)? {
        if bytes.first == UInt8(ascii: "#") { return number(bytes) }
        let name = bytes.prefix(maximumName).prefix(while: \.isLetterOrDigit)
        let end = bytes.dropFirst(name.count).first
        if end == UInt8(ascii: ";"), let character = names[String(decoding: name, as: UTF8.self)] {
            return (character, name.count + 1)
        }
        // The oldest names need no semicolon. In a value, "&copy=1" is a parameter of a URL.
        for length in (2...maximumName).reversed() where length <= name.count {
            guard let character = oldNames[String(decoding: name.prefix(length), as: UTF8.self)] else { continue }
            let next = bytes.dropFirst(length).first
            if isValue, next.map({ $0.isLetterOrDigit || $0 == UInt8(ascii: "=") }) ?? false { return nil }
            return (character, length)
        }
        return nil
    }

    /// Section 13.2.5.80, "Numeric character reference end state".
    private static func number(_ bytes: ArraySlice<UInt8>) -> (Unicode.Scalar, Int)? {
        let isHexadecimal = bytes.dropFirst().first.map { $0 | 0x20 == UInt8(ascii: "x") } ?? false
        let prefix = isHexadecimal ? 2 : 1
        let digits = bytes.dropFirst(prefix).prefix { isHexadecimal ? $0.isHexadecimalDigit : $0.isDigit }
        guard !digits.isEmpty else { return nil }
        let significant = digits.drop { $0 == UInt8(ascii: "0") }
        let code =
            significant.count > 8
            ? nil : UInt32(String(decoding: significant, as: UTF8.self), radix: isHexadecimal ? 16 : 10)
        let hasEnd = bytes.dropFirst(prefix + digits.count).first == UInt8(ascii: ";")
        let length = prefix + digits.count + (hasEnd ? 1 : 0)
        guard let code, code != 0 else { return ("\u{FFFD}", length) }
        if let index = Int(exactly: code).map({ $0 - 0x80 }), windows1252.indices.contains(index) {
            return (windows1252[index], length)
        }
        return (Unicode.Scalar(code) ?? "\u{FFFD}", length)
    }

    private static let maximumName = 8

    /// The Windows-1252 characters from 0x80 to 0x9F, to which numeric references in this range refer.
    private static let windows1252 = Array("€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8D}Ž\u{8F}\u{90}‘’“”•–—˜™š›œ\u{9D}žŸ".unicodeScalars)

    /// The names that need no semicolon: ISO 8859-1 characters from 0xA0, and HTML syntax characters.
    private static let oldNames: [String: Unicode.Scalar] = {
        var names: [String: Unicode.Scalar] = [
            "amp": "&", "AMP": "&", "lt": "<", "LT": "<", "gt": ">", "GT": ">", "quot": "\"", "QUOT": "\"", "COPY": "©",
            "REG": "®",
        ]
        for (number, name) in latin.split(separator: " ").enumerated() {
            names[String(name)] = Unicode.Scalar(UInt8(0xA0 + number))
        }
        return names
    }()

    /// The character reference names of HTML 4, and the other names of up to ``maximumName`` letters for ASCII characters and for Latin and
    /// Cyrillic letters, which PHP's `htmlentities` writes with `ENT_HTML5`. Most other names in the HTML Standard are for mathematical symbols.
    private static let names: [String: Unicode.Scalar] = {
        var names = oldNames
        names["Tab"] = "\t"
        names["NewLine"] = "\n"
        let words = others.split { $0 == " " || $0 == "\n" }
        for (name, character) in zip(words.indices.filter { $0 % 2 == 0 }, words.indices.filter { $0 % 2 == 1 }) {
            names[String(words[name])] = words[character].unicodeScalars.first
        }
        return names
    }()

    private static let latin = """
        nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 \
        acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde \
        Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc \
        Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml \
        aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc \
        otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml
        """

    private static let others = """
        OElig Œ oelig œ Scaron Š scaron š Yuml Ÿ fnof ƒ circ ˆ tilde ˜ Alpha Α Beta Β Gamma Γ Delta Δ Epsilon Ε
        Zeta Ζ Eta Η Theta Θ Iota Ι Kappa Κ Lambda Λ Mu Μ Nu Ν Xi Ξ Omicron Ο Pi Π Rho Ρ Sigma Σ Tau Τ Upsilon Υ
        Phi Φ Chi Χ Psi Ψ Omega Ω alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ
        lambda λ mu μ nu ν xi ξ omicron ο pi π rho ρ sigmaf ς sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω
        thetasym ϑ upsih ϒ piv ϖ ensp \u{2002} emsp \u{2003} thinsp \u{2009} zwnj \u{200C} zwj \u{200D}
        lrm \u{200E} rlm \u{200F} ndash – mdash — lsquo ‘ rsquo ’ sbquo ‚ ldquo “ rdquo ” bdquo „ dagger †
        Dagger ‡ bull • hellip … permil ‰ prime ′ Prime ″ lsaquo ‹ rsaquo › oline ‾ frasl ⁄ euro € image ℑ
        weierp ℘ real ℜ trade ™ alefsym ℵ larr ← uarr ↑ rarr → darr ↓ harr ↔ crarr ↵ lArr ⇐ uArr ⇑ rArr ⇒ dArr ⇓
        hArr ⇔ forall ∀ part ∂ exist ∃ empty ∅ nabla ∇ isin ∈ notin ∉ ni ∋ prod ∏ sum ∑ minus − lowast ∗ radic √
        prop ∝ infin ∞ ang ∠ and ∧ or ∨ cap ∩ cup ∪ int ∫ there4 ∴ sim ∼ cong ≅ asymp ≈ ne ≠ equiv ≡ le ≤ ge ≥
        sub ⊂ sup ⊃ nsub ⊄ sube ⊆ supe ⊇ oplus ⊕ otimes ⊗ perp ⊥ sdot ⋅ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ lang ⟨
        rang ⟩ loz ◊ spades ♠ clubs ♣ hearts ♥ diams ♦ apos ' colon : sol / quest ? equals = num # period .
        comma , commat @ percnt % semi ; lowbar _ bsol \\ excl ! plus + lpar ( rpar ) hyphen ‐ dollar $ ast *
        midast * lbrack [ lsqb [ rbrack ] rsqb ] Hat ^ UnderBar _ grave ` lbrace { lcub { verbar | vert | rbrace }
        rcub } Dot ¨ die ¨ circledR ® strns ¯ pm ± Cedilla ¸ half ½ angst Å div ÷ Amacr Ā amacr ā Abreve Ă abreve ă
        Aogon Ą aogon ą Cacute Ć cacute ć Ccirc Ĉ ccirc ĉ Cdot Ċ cdot ċ Ccaron Č ccaron č Dcaron Ď dcaron ď Dstrok Đ
        dstrok đ Emacr Ē emacr ē Edot Ė edot ė Eogon Ę eogon ę Ecaron Ě ecaron ě Gcirc Ĝ gcirc ĝ Gbreve Ğ gbreve ğ
        Gdot Ġ gdot ġ Gcedil Ģ Hcirc Ĥ hcirc ĥ Hstrok Ħ hstrok ħ Itilde Ĩ itilde ĩ Imacr Ī imacr ī Iogon Į iogon į
        Idot İ imath ı inodot ı IJlig Ĳ ijlig ĳ Jcirc Ĵ jcirc ĵ Kcedil Ķ kcedil ķ kgreen ĸ Lacute Ĺ lacute ĺ
        Lcedil Ļ lcedil ļ Lcaron Ľ lcaron ľ Lmidot Ŀ lmidot ŀ Lstrok Ł lstrok ł Nacute Ń nacute ń Ncedil Ņ ncedil ņ
        Ncaron Ň ncaron ň napos ŉ ENG Ŋ eng ŋ Omacr Ō omacr ō Odblac Ő odblac ő Racute Ŕ racute ŕ Rcedil Ŗ rcedil ŗ
        Rcaron Ř rcaron ř Sacute Ś sacute ś Scirc Ŝ scirc ŝ Scedil Ş scedil ş Tcedil Ţ tcedil ţ Tcaron Ť tcaron ť
        Tstrok Ŧ tstrok ŧ Utilde Ũ utilde ũ Umacr Ū umacr ū Ubreve Ŭ ubreve ŭ Uring Ů uring ů Udblac Ű udblac ű
        Uogon Ų uogon ų Wcirc Ŵ wcirc ŵ Ycirc Ŷ ycirc ŷ Zacute Ź zacute ź Zdot Ż zdot ż Zcaron Ž zcaron ž IOcy Ё
        DJcy Ђ GJcy Ѓ Jukcy Є DScy Ѕ Iukcy І YIcy Ї Jsercy Ј LJcy Љ NJcy Њ TSHcy Ћ KJcy Ќ Ubrcy Ў DZcy Џ Acy А Bcy Б
        Vcy В Gcy Г Dcy Д IEcy Е ZHcy Ж Zcy З Icy И Jcy Й Kcy К Lcy Л Mcy М Ncy Н Ocy О Pcy П Rcy Р Scy С Tcy Т
        Ucy У Fcy Ф KHcy Х TScy Ц CHcy Ч SHcy Ш SHCHcy Щ HARDcy Ъ Ycy Ы SOFTcy Ь Ecy Э YUcy Ю YAcy Я acy а bcy б
        vcy в gcy г dcy д iecy е zhcy ж zcy з icy и jcy й kcy к lcy л mcy м ncy н ocy о pcy п rcy р scy с tcy т
        ucy у fcy ф khcy х tscy ц chcy ч shcy ш shchcy щ hardcy ъ ycy ы softcy ь ecy э yucy ю yacy я iocy ё djcy ђ
        gjcy ѓ jukcy є dscy ѕ iukcy і yicy ї jsercy ј ljcy љ njcy њ tshcy ћ kjcy ќ ubrcy ў dzcy џ gacute ǵ imped Ƶ
        jmath ȷ fflig ﬀ filig ﬁ fllig ﬂ ffilig ﬃ ffllig ﬄ
        """
}

extension UInt8 {
    fileprivate var isHexadecimalDigit: Bool {
        isDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self | 0x20)
    }
}
