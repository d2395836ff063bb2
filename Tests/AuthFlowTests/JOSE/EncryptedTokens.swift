import Testing

/// Tokens encrypted with joserfc 1.6.5, and their keys, which are used only here.
enum EncryptedTokens {
    /// The content of each token.
    static let content = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"

    struct Token: Sendable, CustomTestStringConvertible {
        let algorithm: String
        let encryption: String
        let keyID: String
        let text: String

        var testDescription: String { "\(algorithm), \(encryption), \(keyID)" }
    }

    static let keys: [String: String] = [
        "rsa": #"""
        {"n":"z_B1kNXm3gUawwv5H6EJlfiOJAenmk-R1sz7KWCr6tzykyqaf34bfLNI9OZFa-so2-220DGRXeKhLqjbSttLXpz3yRhRvZ\#
        AIU8r1YW9oHCmzqqRVj66Pl9-KjjiJjKdijqjXW_rN_UebMuTSfB3u0UEIGd7dc1a6xbcSxT7ihXZkWe6MkYL_vjIr2JjLXZAD3m\#
        NwcFdKQoXgxFklPlc_x5YopYn_bQImpydHzyYGSgoraty5pi_6iyHbrVevvByZ9fOvaMB-nN_nIab2YYyNSc79kZ9K5MMsIK4GoI\#
        Rt5sgCLEjd9KYbc9hpRYjbFwaP7GWxRdOY9OD_yEjCF7c9kw","e":"AQAB","d":"QwmiVXHojs51fMlY5R4NUZjC9pGzMpgRi_\#
        8kwAfHFR5rZA-5pH27Dd5dGHs-iVbUoubF5-P7GhoM3daZcE43w8Z2ShI5lBQh4yXNKz74ARBeuJZncT2VVKDAci5_BeYW66g6Wh\#
        CHJW9W9Tb5NwONcU_2dSS5H0yoRULK3eVysRTPy0pGaOM09pP67tA74FouKh2fQ4D3YtHyCiqmUAnmvFp4aE0tdW1Z-d8JW7UduT\#
        3wUQ8cPBrHQESbABUCIRgo33Ud9Mfq1KOvTbHDh_H0iA0hmyVNfunHIqjP5ht8ck2IoSg2S9SimB_oAxqbkyYHAAgRj6ZsjTjFGT\#
        7OPVUCkQ","p":"8IB9qdkLWwUcXVQnp0SLu1F7oTdDMQgUyRHrHvlvnEOW3zvuRSZgm_6GUD6znlElj4EI9Mo4E1FseHadlB79U\#
        Gi1CcYVjURq9QvYiuMXJlguD9CE7U0ERI6957ge1se-pYKsAe5329UW1yz9KGPBZBqLHNJ244GIUDDr7fM0gpE","q":"3VbKKAe\#
        074zOhSY90elczJEA36INOU8SZier1IX0cT92-AFxccz_V2dmfBoVLYZWTtqAPdBkHCML8xANMW2P5Z1iQH1O_ZOHosLQjkJftUa\#
        g-axltAi9RjrN0ZUS_htJa_5TdZLuT7_5GrBz6uYXR1wFiYf6b9KBFX1NMVb9h-M","dp":"qNM542H2A7XpvGYX0-ZdRGglpfz6\#
        ENBAbwlCCKNGwuX7YcdbMnWHOdoJBQmO4yLJgBwvYk8V4BG3WDTD1zeN0MU_2JWRiXIutsfTAWP6WzNpWjahKUd4KHwfOStZkqHy\#
        5ZJ-FnkE8G98Mh5ls9Wa6x9q6hef14KVYt2EsKuZ_9E","dq":"Kqbv29joWAUlQulEnm--zzjeFzouHC4NmJvqc9DAcxZMwavdh\#
        ZWAWwJ08FNCY3xwo09dyQugTv-97L_aGv1G7nNunIjJMPo99_JcqB1IPjF3EcXT72aDusXYJZv5hfgSJPpkcNK4k6ulwCvimpBuS\#
        fUEqCUI8IV7FH4J4wklYAs","qi":"PV81YWl02szS5J36O7D3bGGKiJyHsrEIodzmcVSgWXvyasRXlBugJUdIiM-WjJ5DzS3u6j\#
        hYToIZbfcASttd207wmieFkJoFc_T1JBtit5F2B0sBa4FPc0dM_ItLm05lYmSMTRs0xdyMrbK1sY-JHgxFUFQ--gL8XAQtp1OZhp\#
        E","kid":"rsa","use":"enc","kty":"RSA"}
        """#,
        "p256": #"""
        {"crv":"P-256","x":"XW7ocNOfG2Hqvo0APa2CAji0Ie4sOXEpaXhi_xlPKFM","y":"90rMx4J3G6Hr8YSN1Q-h-1eTk5aKoL\#
        5Oiz0w1_cKfdU","d":"rZkOCkRIr-yKn6dOQ13uOURAyQSkqcPKMYTTRplXc8w","kid":"p256","use":"enc","kty":"EC"\#
        }
        """#,
        "p384": #"""
        {"crv":"P-384","x":"Z1xTdk40RRhTfrgRfIDalyoVckKAzniPW-2VVMC_xpxisF91fDgPqkuZNtBPy7zg","y":"5onE0EvaN\#
        so8Kg1PKjl_ipdUTmkXlm1BCTSxzmY4nCRSrpkvfVbBM4C4Ss0Bz94W","d":"sp8r0tK-R7ves8ufCR0Ia_LMy3FPD2IO2m_SAh\#
        5aPEeYbtayf4LC9ynlIxoTSl99","kid":"p384","use":"enc","kty":"EC"}
        """#,
        "p521": #"""
        {"crv":"P-521","x":"AHh-slqNvKs_aMWS0oe3j1Rq99r9RAyfaFt_Nd7mXZqxaaNgGO2O5HHZfNe_uqhNLQtinzYdk7TaXchx\#
        84cFehlI","y":"AHTzS7Feq_ZeujTlktnqExJ-lGwExVvmnhms4yBHowI1df-663ATbiBOkLcMQYe5rUMmZ8f2mbWoZNjqS5V7e\#
        gl8","d":"AL2jI9gOiLbdJjabSRy7toM79UsU6Pa7NYEss8lNa6rZnq3gBfEAK5YOIu7EHVEZcnH-C_JWLWvDeYZzEINbbnS6",\#
        "kid":"p521","use":"enc","kty":"EC"}
        """#,
        "x25519": #"""
        {"crv":"X25519","x":"MAr7nUn65igxc_syu1M2VctgwxRSWOE8vC8YtuJkjRQ","d":"kNDIj-afotgrYwemSZ3l4vy6rfL9x\#
        ZpZ04ajyvCreHg","kid":"x25519","use":"enc","kty":"OKP"}
        """#,
    ]

    static let all: [Token] = [
        Token(
            algorithm: "RSA-OAEP",
            encryption: "A256GCM",
            keyID: "rsa",
            text: """
                eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00iLCJraWQiOiJyc2EiLCJjdHkiOiJKV1QifQ.tQVKbQRyUmBhdfHXTTfmO\
                kRr-jwD9zXz5ozws2Z7CG16Y5GiwpRa-mFpS30sdeU-bWlXtT8zofwV2ztnhrrL1iQG7GSCOQj7itiRTXhEhzjL4hS56FGdvZpcG\
                8G52CHJ0C9H21dIPuGnSl3BJac5yUPzrL_CwjDbSfGTyov1GslNAvUwoTJITyKs9ZK2LHvheci7vLOKEXopjOTVCqhyndwBAjh23\
                rmbvs38SMnG-HLbMTIM7SimWa_xgHTets79RCRxkfcCc-2EeTpd-mVy77Ywzk6SSBbt9I7WkNSOv6A7arXPxa8Kngd5M5Zv7t5GS\
                hhp_DUFxs34YR8zOAWH7Q.ZKp8JwwEnst6GLhY.n3F4bNHO3-xuahuFiYSnUl8boi9aiU8BwjlVrkcCRuPkaalNYLLZgJxZsmrfA\
                GlaRW8LOjw.D6z8NbXNU5J9Wj3RsOyL3Q
                """
        ),
        Token(
            algorithm: "RSA-OAEP-256",
            encryption: "A128CBC-HS256",
            keyID: "rsa",
            text: """
                eyJhbGciOiJSU0EtT0FFUC0yNTYiLCJlbmMiOiJBMTI4Q0JDLUhTMjU2Iiwia2lkIjoicnNhIiwiY3R5IjoiSldUIn0.IgIagP5c\
                Kq2yaSDxEiEdoOu7XqdfJ5fXEWz9MLYfYcEJcruB1maOeJiw7HBuy0F4G8Zt79vzrI-RtXNAKzHYjMFs2wbJe2oKRUot3vjK6Slh\
                MeG6IGm3U3vhCpMMOYTXfn04cIplt9H2dvtDjD9WDr8W8qLqRRuQaiMaYPLgwKKGZgy1uo_ONnM1yDmm7ObjKwrDbgXvtsM9QTGl\
                MUJLOxjeZf2SpUT0ZR6s5tgKf8sUn-E3EVYFe2bAn9XPijev-tP5yw5JOtld92C9qE8SGxiccypZI9ucYAH28ZpJALHponC4_8b4\
                ke6i-n_udRguJAB1qh1USNCTssRhCKj80w._CEXKGgzHfhciyh7woTx1g.yrYnBfS3VLJlnISErgN4KKUqAHbt5cy42YrxPmFGJ0\
                VHvdMbwyTpyRSPgvHz4i6LvFyru6XAb_H0sJSxoYpuFg.EIZM0kbkRVwpweyZf0C2bA
                """
        ),
        Token(
            algorithm: "ECDH-ES",
            encryption: "A128GCM",
            keyID: "p256",
            text: """
                eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTEyOEdDTSIsImtpZCI6InAyNTYiLCJjdHkiOiJKV1QiLCJhcHUiOiJRV3hwWTJVIiwi\
                YXB2IjoiUW05aSIsImVwayI6eyJjcnYiOiJQLTI1NiIsIngiOiJnSldPYnZrOHJ4T0NIaDE4WFJybzF3elY4WFNJVHJTTjVJUGNE\
                WXAwQWlJIiwieSI6IjFqV1ZyTWlEdVdTZnYzWVZPRGhWVFFuUENVdWl5OWl5dWtDM1VVTzM0aVkiLCJrdHkiOiJFQyJ9fQ..ad-y\
                avJ7ql3YGPEL.s7EIDP5nDe4wSieTjYokMgztryqHwohObNIPaWP5bUcY3EXquBCNTYn0MDFqZ21wNZZ5cfQ.tvOI79UUaUxaEoT\
                Zfl7bhw
                """
        ),
        Token(
            algorithm: "ECDH-ES",
            encryption: "A256CBC-HS512",
            keyID: "p521",
            text: """
                eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTI1NkNCQy1IUzUxMiIsImtpZCI6InA1MjEiLCJjdHkiOiJKV1QiLCJhcHUiOiJRV3hw\
                WTJVIiwiYXB2IjoiUW05aSIsImVwayI6eyJjcnYiOiJQLTUyMSIsIngiOiJBZlZxNzVqSGZEUXNDcmpCQUYwbi1ucGtPcEs0a1ZM\
                MUROcUJ6bnE1THFwVkRlRG1ZaXoyOW0yVVJOUGtyUkkwQV9adUNsUURlRzllRldUY1ZpY0ZFa2NRIiwieSI6IkFUeXhTWUhIM3Zk\
                bk05cDMzNEhCUUFJdUhQZ05EdHNuRWFfUEN0OTRGb0JuTTJ3cVhTNjlWVjIwWlY0dDFLUUVNbXZKNnRYcERWLWtQd1JPOW5aa0hu\
                bzIiLCJrdHkiOiJFQyJ9fQ..vbcLewNgKLTrpW8_fKjyRg.ZfVAFfqjnNzHvXDc4qfmffZYDmJUzOhjqqP4MYBj83dxsbqWTU3IN\
                Kr1xf9hsOjPlqw0BXr_RevQjo7ILm-6_A.NiOfKYSG15nOA_JMJeLbyR9MRLGKcNWGx3UmoR9UGNk
                """
        ),
        Token(
            algorithm: "ECDH-ES+A128KW",
            encryption: "A192GCM",
            keyID: "p384",
            text: """
                eyJhbGciOiJFQ0RILUVTK0ExMjhLVyIsImVuYyI6IkExOTJHQ00iLCJraWQiOiJwMzg0IiwiY3R5IjoiSldUIiwiYXB1IjoiUVd4\
                cFkyVSIsImFwdiI6IlFtOWkiLCJlcGsiOnsiY3J2IjoiUC0zODQiLCJ4IjoiOFlfTk5XX2NpbnFLSnFMYU50eE1mZGU5VVJRc0Fp\
                LTZpWWowS0RtZTdmdG8wQTBkTF8xbkJTZlVnZTFfVzVzWSIsInkiOiJSVFdCRUpLaE54N3pPbjF4LW1xV0cydmp4SGRBM3pGbVNv\
                SlZHNWYzSng2YXNoVUdHYVpuWlhWeVlFVnhrQXpqIiwia3R5IjoiRUMifX0.Bpmsj2Z8np29WP1N1juv8BF7mubqqRk_DO6c_t1g\
                zhg.iqpzYRJRfXiK1fg8.IQKC0QLyMDx4RKtGGgz_RSinad2FnBOkb2bo-QSOfPF9MFqRHkMhAzSmourc11cOTad7xe0.lvOXk2n\
                vKsKBrRFk1CeIPQ
                """
        ),
        Token(
            algorithm: "ECDH-ES+A192KW",
            encryption: "A192CBC-HS384",
            keyID: "p256",
            text: """
                eyJhbGciOiJFQ0RILUVTK0ExOTJLVyIsImVuYyI6IkExOTJDQkMtSFMzODQiLCJraWQiOiJwMjU2IiwiY3R5IjoiSldUIiwiYXB1\
                IjoiUVd4cFkyVSIsImFwdiI6IlFtOWkiLCJlcGsiOnsiY3J2IjoiUC0yNTYiLCJ4IjoiTGNUYWJONk1Cb05qalpOUGhTV2poRjRs\
                bjRpTzM4V3VfZkFIQ196Z2VBUSIsInkiOiJOTVdpeG5uT2Jodmw2Zzhjc1FCeXplVlFpVGtrT0ZnS3hvYWRMWHJqdV84Iiwia3R5\
                IjoiRUMifX0.Jevnyyj3MRmlezPMqyAALtvBlvjLcH0xmHcpuHRPy2m3AQeUBh3WID_bYb4-FYR0e2qWzVQ696Q.F4zuyIV_a3wR\
                KFOYQ5R0sQ.Y6RUXktvNqp2t5aqBDxQSXZ3DhnDFvdWCSEgGDimC9RN8paZ_Nasf-dZizAaDhIPo6kCWYshebWiHqe-IqyYNA.ow\
                k5jWsV6IR4pwNoLH5SiEIf-0z7PpjB
                """
        ),
        Token(
            algorithm: "ECDH-ES+A256KW",
            encryption: "A256GCM",
            keyID: "x25519",
            text: """
                eyJhbGciOiJFQ0RILUVTK0EyNTZLVyIsImVuYyI6IkEyNTZHQ00iLCJraWQiOiJ4MjU1MTkiLCJjdHkiOiJKV1QiLCJhcHUiOiJR\
                V3hwWTJVIiwiYXB2IjoiUW05aSIsImVwayI6eyJjcnYiOiJYMjU1MTkiLCJ4IjoiVkM1aHUwbFNkaUJsUmFPNXVFMnFwTmd6dFZ5\
                LXNJVDZfemVoWjQ1MTltZyIsImt0eSI6Ik9LUCJ9fQ.x9hXHgCpZFtdhXltGfw7u7otQArfZ315dEj6qVD5q9x6k9R2tycU9w.kw\
                TyplSMYJlGeXIT.ZBdeA8roQegn8kVzZZyHMmWbmesQGOaWxmYqFR-fyYjkUvCDpbZ2SAkDTvY9PyH3rfx3HA0.M6YK5kUbwIzix\
                M3zc0HX4A
                """
        ),
    ]
}
