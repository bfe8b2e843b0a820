-- The tables of spans (ADR 0003). Nothing is changed here after the first release: the next change is 0002_*.sql.
--
-- With `fsync_after_insert` and `fsync_part_directory` an insert returns when its rows are on the disk, not in the
-- memory of the system: the worker commits its records then, so after a power failure nobody would deliver them again
-- (ADR 0004).

-- The spans, one row for each version, in the order of pages: project, start, span, trace. Texts are stored as
-- responses show them. `partition_id` and `version` decide which version of a span is the latest. Merges keep every
-- row, also of versions that were replaced: a merge that could drop rows would build the text indexes again, which takes
-- twice the processor time (ADR 0042).
CREATE TABLE IF NOT EXISTS spans{local}
(
    project_id                UUID,
    start_us                  Int64                                CODEC(Delta, ZSTD(1)),
    span_id                   FixedString(16)                      CODEC(ZSTD(1)),
    trace_id                  FixedString(16)                      CODEC(ZSTD(1)),
    partition_id              LowCardinality(String),
    -- The offset of the record times 2^17, plus twice the number of the events that log records added to the span, and
    -- 2^62 unless the span is running (common/span_version.py).
    version                   UInt64                               CODEC(Delta, ZSTD(1)),
    span_index                UInt32                               CODEC(T64, ZSTD(1)),
    record_ms                 Int64                                CODEC(Delta, ZSTD(1)),
    stored_us                 Int64                                CODEC(Delta, ZSTD(1)),
    -- Where the row arrived, if not in the record of its version: in the log record with the last of its events.
    arrival_partition_id      LowCardinality(String),
    arrival_offset            UInt64                               CODEC(T64, ZSTD(1)),
    parent_id                 FixedString(16)                      CODEC(ZSTD(1)),  -- zeros for a root
    end_us                    Int64                                CODEC(Delta, ZSTD(1)),
    start_ns_rest             UInt16                               CODEC(T64, ZSTD(1)),  -- below the microsecond
    end_ns_rest               UInt16                               CODEC(T64, ZSTD(1)),
    name                      LowCardinality(String),
    kind                      UInt8                                CODEC(ZSTD(1)),
    status_code               UInt8                                CODEC(ZSTD(1)),
    status_message            Nullable(String)                     CODEC(ZSTD(1)),
    trace_type                LowCardinality(String),
    span_type                 LowCardinality(String),
    session_id                Nullable(String)                     CODEC(ZSTD(1)),
    user_id                   Nullable(String)                     CODEC(ZSTD(1)),
    agent_id                  Nullable(String)                     CODEC(ZSTD(1)),
    trace_state               String                               CODEC(ZSTD(1)),
    flags                     UInt32                               CODEC(T64, ZSTD(1)),
    dropped_attributes_count  UInt32                               CODEC(T64, ZSTD(1)),
    dropped_events_count      UInt32                               CODEC(T64, ZSTD(1)),
    dropped_links_count       UInt32                               CODEC(T64, ZSTD(1)),

    -- What the span itself used; `usage_is_own`: it counts whatever the spans below it report; `cost_is_computed`: its
    -- costs are list prices, and costs that were sent win over them (ADR 0010).
    tokens_prompt             Float64                              CODEC(ZSTD(1)),
    tokens_completion         Float64                              CODEC(ZSTD(1)),
    tokens_total              Float64                              CODEC(ZSTD(1)),
    costs_prompt              Float64                              CODEC(ZSTD(1)),
    costs_completion          Float64                              CODEC(ZSTD(1)),
    costs_total               Float64                              CODEC(ZSTD(1)),
    errors                    Float64                              CODEC(ZSTD(1)),
    usage_is_own              UInt8                                CODEC(ZSTD(1)),
    cost_is_computed          UInt8                                CODEC(ZSTD(1)),

    -- The attributes as JSON text with U+0000 in place of each scalar; `leaves` has the scalars in the same order
    -- (ADR 0028, common/clickhouse/leaves.py). `attributes_json` in common/clickhouse/computed_columns.sql puts the
    -- two together.
    attributes_template       LowCardinality(String),

    -- Members of responses as JSON text; '' where the member is absent. `repaired`: where the span could not be stored
    -- as it was sent (contract §4).
    events                    String                               CODEC(ZSTD(1)),
    links                     String                               CODEC(ZSTD(1)),
    references                String                               CODEC(ZSTD(1)),
    hashes                    String                               CODEC(ZSTD(1)),
    resource                  LowCardinality(String),
    scope                     LowCardinality(String),
    repaired                  LowCardinality(String),
    scores                    String                               CODEC(ZSTD(1)),
    dropped_scores_count      UInt32                               CODEC(T64, ZSTD(1)),

    -- The newest score of each name, whose source does not matter: name -> typed text as in `leaves`. `score_values`
    -- has the value, or the label if there is no value, `score_labels` the label, or the value if there is no label
    -- (ADR 0047, common/clickhouse/score_maps.py).
    score_values              Map(LowCardinality(String), String)  CODEC(ZSTD(1)),
    score_labels              Map(LowCardinality(String), String)  CODEC(ZSTD(1)),

    -- What only names with dots lead to in the attributes, the resource and the scope, by the key that finds it, as JSON
    -- text; '' in nearly every row (common/clickhouse/member_json.py).
    attributes_by_key         String                               CODEC(ZSTD(1)),
    resource_by_key           LowCardinality(String)               CODEC(ZSTD(1)),
    scope_by_key              LowCardinality(String)               CODEC(ZSTD(1)),

    -- About the uncompressed size of the row's columns.
    response_bytes            UInt32                               CODEC(T64, ZSTD(1)),

    -- Which optional members the row has, one bit each, in the order of OPTIONAL_MEMBERS
    -- (common/clickhouse/span_columns.py): a page reads only the columns that one of its rows needs.
    members                   UInt32                               MATERIALIZED
        isNotNull(status_message)
        + 2 * isNotNull(session_id)
        + 4 * isNotNull(user_id)
        + 8 * isNotNull(agent_id)
        + 16 * notEmpty(trace_state)
        + 32 * (flags != 0)
        + 64 * (dropped_attributes_count != 0)
        + 128 * (dropped_events_count != 0)
        + 256 * (dropped_links_count != 0)
        + 512 * notEmpty(events)
        + 1024 * notEmpty(links)
        + 2048 * notEmpty(references)
        + 4096 * notEmpty(hashes)
        + 8192 * notEmpty(resource)
        + 16384 * notEmpty(scope)
        + 32768 * notEmpty(repaired)
        + 65536 * notEmpty(scores)
        + 131072 * (dropped_scores_count != 0)
        CODEC(ZSTD(1)),

    -- `service.name` of the resource: '' if it is absent, U+0000 if it is not a text (no stored text contains U+0000).
    service_name              LowCardinality(String)               MATERIALIZED
        multiIf(
            JSONType(resource, 'attributes', 'service', 'name') = 'String',
            JSONExtractString(resource, 'attributes', 'service', 'name'),
            JSONType(resource, 'attributes', 'service', 'name') != 'Null',
            '\0',
            JSONType(resource_by_key, 'attributes.service.name') = 'String',
            JSONExtractString(resource_by_key, 'attributes.service.name'),
            JSONHas(resource_by_key, 'attributes.service.name'),
            '\0',
            ''
        )
        CODEC(ZSTD(1)),

    -- The scalars of the attributes, for filters: dotted path -> typed text (common/clickhouse/leaves.py).
    leaves                    Map(LowCardinality(String), String)  CODEC(ZSTD(1)),

    -- The session and user in the attributes of any span (the columns above are set for roots only). A list of
    -- sessions reads these two columns instead of all leaves.
    session_in_attributes     String                               MATERIALIZED
        substring(leaves['ag.session.id'], 2) CODEC(ZSTD(1)),
    user_in_attributes        String                               MATERIALIZED
        substring(leaves['ag.user.id'], 2) CODEC(ZSTD(1)),

    -- The leaves that lists, outlines and rankings show of every span: typed texts as in `leaves`, '' if there is none
    -- (contract §3.5). Reading them here instead of from all leaves makes 100,000 LLM spans 300 ms faster.
    model_leaf                LowCardinality(String)               MATERIALIZED
        if(
            leaves['ag.meta.response.model'] != '',
            leaves['ag.meta.response.model'],
            leaves['ag.meta.request.model']
        )
        CODEC(ZSTD(1)),
    tokens_leaf               String                               MATERIALIZED
        leaves['ag.metrics.tokens.incremental.total'] CODEC(ZSTD(1)),
    cost_leaf                 String                               MATERIALIZED
        leaves['ag.metrics.costs.incremental.total'] CODEC(ZSTD(1)),

    -- Text indexes; the expressions of the first two are `leaf_pairs` and `content` in
    -- common/clickhouse/computed_columns.sql. The first has the pairs `path=value` of short values alone: typed texts of
    -- at most 16 characters, of numbers with a fraction at most 6 (`has_pair` in common/clickhouse/leaves.py, ADR 0032).
    -- Longer texts are found by their words, in the second. The one on `references` holds whatever is between two
    -- quotes, so each text as a whole.
    INDEX leaf_pairs_index
        arrayMap(
            leaf -> concat(leaf.1, '=', leaf.2),
            arrayFilter(
                leaf -> match(leaf.2, '(?s)^([^n].{0,15}|n[^.]{0,15}|n.{0,5})$'),
                CAST(leaves, 'Array(Tuple(String, String))')
            )
        )
        TYPE text(tokenizer = 'array', posting_list_codec = 'bitpacking'),
    INDEX words_index
        arrayMap(
            text -> if(
                isValidASCII(text),
                lower(text),
                replaceRegexpAll(
                    translateUTF8(
                        lower(text),
                        'µÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽſƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƠƢƤƦƧƩƬƮƯƱƲƳƵƷƸƼǄǅǇǈǊǋǍǏǑǓǕǗǙǛǞǠǢǤǦǨǪǬǮǱǲǴǶǷǸǺǼǾȀȂȄȆȈȊȌȎȐȒȔȖȘȚȜȞȠȢȤȦȨȪȬȮȰȲȺȻȽȾɁɃɄɅɆɈɊɌɎͅͰͲͶͿΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫςϏϐϑϕϖϘϚϜϞϠϢϤϦϨϪϬϮϰϱϴϵϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲӴӶӸӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾႿჀჁჂჃჄჅჇჍᏸᏹᏺᏻᏼᏽᲀᲁᲂᲃᲄᲅᲆᲇᲈᲐᲑᲒᲓᲔᲕᲖᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮᲯᲰᲱᲲᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾṀṂṄṆṈṊṌṎṐṒṔṖṘṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼṾẀẂẄẆẈẊẌẎẐẒẔẛẞẠẢẤẦẨẪẬẮẰẲẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾἈἉἊἋἌἍἎἏἘἙἚἛἜἝἨἩἪἫἬἭἮἯἸἹἺἻἼἽἾἿὈὉὊὋὌὍὙὛὝὟὨὩὪὫὬὭὮὯᾈᾉᾊᾋᾌᾍᾎᾏᾘᾙᾚᾛᾜᾝᾞᾟᾨᾩᾪᾫᾬᾭᾮᾯᾸᾹᾺΆᾼιῈΈῊΉῌῘῙῚΊῨῩῪΎῬῸΌῺΏῼΩKÅℲⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯↃⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿⓀⓁⓂⓃⓄⓅⓆⓇⓈⓉⓊⓋⓌⓍⓎⓏⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗⰘⰙⰚⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⰯⱠⱢⱣⱤⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿⲀⲂⲄⲆⲈⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌⳎⳐⳒⳔⳖⳘⳚⳜⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎꚐꚒꚔꚖꚘꚚꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶꜸꜺꜼꜾꝀꝂꝄꝆꝈꝊꝌꝎꝐꝒꝔꝖꝘꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞖꞘꞚꞜꞞꞠꞢꞤꞦꞨꞪꞫꞬꞭꞮꞰꞱꞲꞳꞴꞶꞸꞺꞼꞾꟀꟂꟄꟅꟆꟇꟉꟐꟖꟘꟵꭰꭱꭲꭳꭴꭵꭶꭷꭸꭹꭺꭻꭼꭽꭾꭿꮀꮁꮂꮃꮄꮅꮆꮇꮈꮉꮊꮋꮌꮍꮎꮏꮐꮑꮒꮓꮔꮕꮖꮗꮘꮙꮚꮛꮜꮝꮞꮟꮠꮡꮢꮣꮤꮥꮦꮧꮨꮩꮪꮫꮬꮭꮮꮯꮰꮱꮲꮳꮴꮵꮶꮷꮸꮹꮺꮻꮼꮽꮾꮿＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ𐐀𐐁𐐂𐐃𐐄𐐅𐐆𐐇𐐈𐐉𐐊𐐋𐐌𐐍𐐎𐐏𐐐𐐑𐐒𐐓𐐔𐐕𐐖𐐗𐐘𐐙𐐚𐐛𐐜𐐝𐐞𐐟𐐠𐐡𐐢𐐣𐐤𐐥𐐦𐐧𐒰𐒱𐒲𐒳𐒴𐒵𐒶𐒷𐒸𐒹𐒺𐒻𐒼𐒽𐒾𐒿𐓀𐓁𐓂𐓃𐓄𐓅𐓆𐓇𐓈𐓉𐓊𐓋𐓌𐓍𐓎𐓏𐓐𐓑𐓒𐓓𐕰𐕱𐕲𐕳𐕴𐕵𐕶𐕷𐕸𐕹𐕺𐕼𐕽𐕾𐕿𐖀𐖁𐖂𐖃𐖄𐖅𐖆𐖇𐖈𐖉𐖊𐖌𐖍𐖎𐖏𐖐𐖑𐖒𐖔𐖕𐲀𐲁𐲂𐲃𐲄𐲅𐲆𐲇𐲈𐲉𐲊𐲋𐲌𐲍𐲎𐲏𐲐𐲑𐲒𐲓𐲔𐲕𐲖𐲗𐲘𐲙𐲚𐲛𐲜𐲝𐲞𐲟𐲠𐲡𐲢𐲣𐲤𐲥𐲦𐲧𐲨𐲩𐲪𐲫𐲬𐲭𐲮𐲯𐲰𐲱𐲲𑢠𑢡𑢢𑢣𑢤𑢥𑢦𑢧𑢨𑢩𑢪𑢫𑢬𑢭𑢮𑢯𑢰𑢱𑢲𑢳𑢴𑢵𑢶𑢷𑢸𑢹𑢺𑢻𑢼𑢽𑢾𑢿𖹀𖹁𖹂𖹃𖹄𖹅𖹆𖹇𖹈𖹉𖹊𖹋𖹌𖹍𖹎𖹏𖹐𖹑𖹒𖹓𖹔𖹕𖹖𖹗𖹘𖹙𖹚𖹛𖹜𖹝𖹞𖹟𞤀𞤁𞤂𞤃𞤄𞤅𞤆𞤇𞤈𞤉𞤊𞤋𞤌𞤍𞤎𞤏𞤐𞤑𞤒𞤓𞤔𞤕𞤖𞤗𞤘𞤙𞤚𞤛𞤜𞤝𞤞𞤟𞤠𞤡',
                        'μàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿźżžsɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵơƣƥʀƨʃƭʈưʊʋƴƶʒƹƽǆǆǉǉǌǌǎǐǒǔǖǘǚǜǟǡǣǥǧǩǫǭǯǳǳǵƕƿǹǻǽǿȁȃȅȇȉȋȍȏȑȓȕȗșțȝȟƞȣȥȧȩȫȭȯȱȳⱥȼƚⱦɂƀʉʌɇɉɋɍɏιͱͳͷϳάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋσϗβθφπϙϛϝϟϡϣϥϧϩϫϭϯκρθεϸϲϻͻͼͽѐёђѓєѕіїјљњћќѝўџабвгдежзийклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳӵӷӹӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂⴃⴄⴅⴆⴇⴈⴉⴊⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙⴚⴛⴜⴝⴞⴟⴠⴡⴢⴣⴤⴥⴧⴭᏰᏱᏲᏳᏴᏵвдосттъѣꙋაბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰჱჲჳჴჵჶჷჸჹჺჽჾჿḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽṿẁẃẅẇẉẋẍẏẑẓẕṡßạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹỻỽỿἀἁἂἃἄἅἆἇἐἑἒἓἔἕἠἡἢἣἤἥἦἧἰἱἲἳἴἵἶἷὀὁὂὃὄὅὑὓὕὗὠὡὢὣὤὥὦὧᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾰᾱὰάᾳιὲέὴήῃῐῑὶίῠῡὺύῥὸόὼώῳωkåⅎⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻⅼⅽⅾⅿↄⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇⱈⱉⱊⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱟⱡɫᵽɽⱨⱪⱬɑɱɐɒⱳⱶȿɀⲁⲃⲅⲇⲉⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍⳏⳑⳓⳕⳗⳙⳛⳝⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏꚑꚓꚕꚗꚙꚛꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷꜹꜻꜽꜿꝁꝃꝅꝇꝉꝋꝍꝏꝑꝓꝕꝗꝙꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞗꞙꞛꞝꞟꞡꞣꞥꞧꞩɦɜɡɬɪʞʇʝꭓꞵꞷꞹꞻꞽꞿꟁꟃꞔʂᶎꟈꟊꟑꟗꟙꟶᎠᎡᎢᎣᎤᎥᎦᎧᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵᎶᎷᎸᎹᎺᎻᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ𐐨𐐩𐐪𐐫𐐬𐐭𐐮𐐯𐐰𐐱𐐲𐐳𐐴𐐵𐐶𐐷𐐸𐐹𐐺𐐻𐐼𐐽𐐾𐐿𐑀𐑁𐑂𐑃𐑄𐑅𐑆𐑇𐑈𐑉𐑊𐑋𐑌𐑍𐑎𐑏𐓘𐓙𐓚𐓛𐓜𐓝𐓞𐓟𐓠𐓡𐓢𐓣𐓤𐓥𐓦𐓧𐓨𐓩𐓪𐓫𐓬𐓭𐓮𐓯𐓰𐓱𐓲𐓳𐓴𐓵𐓶𐓷𐓸𐓹𐓺𐓻𐖗𐖘𐖙𐖚𐖛𐖜𐖝𐖞𐖟𐖠𐖡𐖣𐖤𐖥𐖦𐖧𐖨𐖩𐖪𐖫𐖬𐖭𐖮𐖯𐖰𐖱𐖳𐖴𐖵𐖶𐖷𐖸𐖹𐖻𐖼𐳀𐳁𐳂𐳃𐳄𐳅𐳆𐳇𐳈𐳉𐳊𐳋𐳌𐳍𐳎𐳏𐳐𐳑𐳒𐳓𐳔𐳕𐳖𐳗𐳘𐳙𐳚𐳛𐳜𐳝𐳞𐳟𐳠𐳡𐳢𐳣𐳤𐳥𐳦𐳧𐳨𐳩𐳪𐳫𐳬𐳭𐳮𐳯𐳰𐳱𐳲𑣀𑣁𑣂𑣃𑣄𑣅𑣆𑣇𑣈𑣉𑣊𑣋𑣌𑣍𑣎𑣏𑣐𑣑𑣒𑣓𑣔𑣕𑣖𑣗𑣘𑣙𑣚𑣛𑣜𑣝𑣞𑣟𖹠𖹡𖹢𖹣𖹤𖹥𖹦𖹧𖹨𖹩𖹪𖹫𖹬𖹭𖹮𖹯𖹰𖹱𖹲𖹳𖹴𖹵𖹶𖹷𖹸𖹹𖹺𖹻𖹼𖹽𖹾𖹿𞤢𞤣𞤤𞤥𞤦𞤧𞤨𞤩𞤪𞤫𞤬𞤭𞤮𞤯𞤰𞤱𞤲𞤳𞤴𞤵𞤶𞤷𞤸𞤹𞤺𞤻𞤼𞤽𞤾𞤿𞥀𞥁𞥂𞥃'
                    ),
                    '[^\\x00-\\x7F\\p{L}\\p{N}\\p{M}]+',
                    ' '
                )
            ),
            arrayConcat(
                arrayMap(leaf -> substring(leaf, 2), arrayFilter(leaf -> startsWith(leaf, 's'), mapValues(leaves))),
                arrayFlatten(arrayMap(
                    event -> arrayPushFront(
                        arrayMap(
                            literal -> JSONExtractString(literal),
                            arrayFilter(
                                literal -> endsWith(literal, '"'),
                                extractAll(concat(JSONExtractRaw(event, 'attributes'), JSONExtractRaw(event, 'body')), '"(?:[^"\\\\]|\\\\.)*":?')
                            )
                        ),
                        JSONExtractString(event, 'name')
                    ),
                    JSONExtractArrayRaw(events)
                ))
            )
        )
        TYPE text(tokenizer = 'splitByNonAlpha', posting_list_codec = 'bitpacking'),
    INDEX references_index references TYPE text(tokenizer = splitByString(['"'])),

    -- For each 4,096 rows a filter that knows which values do not occur: without it, a rare value is looked for in
    -- every row. `leaf_paths_index` serves comparisons, which no index of values covers: they are made only where
    -- the path occurs.
    INDEX trace_id_index trace_id TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX span_id_index span_id TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX parent_id_index parent_id TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX name_index name TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX session_id_index session_id TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX user_id_index user_id TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX agent_id_index agent_id TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX service_name_index service_name TYPE bloom_filter(0.01) GRANULARITY 8,
    INDEX leaf_paths_index mapKeys(leaves) TYPE bloom_filter(0.01) GRANULARITY 8
)
ENGINE = {replicated}MergeTree({replica_names})
PARTITION BY (toYYYYMM(fromUnixTimestamp64Micro(start_us)))
ORDER BY (project_id, start_us, span_id, trace_id, partition_id)
SETTINGS {storage_policy}{dedup_window_setting} = 1000, index_granularity = 512, min_compress_block_size = 8192,
    fsync_after_insert = 1, fsync_part_directory = 1;

-- Which version of a span is the latest, where its row is, and what it used: a narrow row for each version, in the
-- order of traces. Deletions are rows here too; they fill only the key and the first three columns after it.
CREATE TABLE IF NOT EXISTS span_versions{local}
(
    project_id                UUID,
    trace_id                  FixedString(16)                      CODEC(ZSTD(1)),
    span_id                   FixedString(16)                      CODEC(ZSTD(1)),
    partition_id              LowCardinality(String),
    -- As in `spans`. The deletion of a version is the last number of its offset (odd): it wins over what it deletes and
    -- loses to the next record, unless it deletes an end and the next record is a start.
    version                   UInt64                               CODEC(T64, ZSTD(1)),
    record_ms                 Int64                                CODEC(T64, ZSTD(1)),
    start_us                  Int64                                CODEC(T64, ZSTD(1)),
    parent_id                 FixedString(16)                      CODEC(ZSTD(1)),
    -- The seven amounts and two flags of `spans` in one text of 58 bytes, little-endian, which is read in three quarters
    -- of the time of nine columns (ADR 0041); '' if the span used nothing.
    usage                     String                               CODEC(ZSTD(1)),
    members                   UInt32                               CODEC(ZSTD(1)),
    response_bytes            UInt32                               CODEC(T64, ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}version)
ORDER BY (project_id, trace_id, span_id, partition_id)
SETTINGS {dedup_window_setting} = 1000, index_granularity = 512, min_compress_block_size = 4096,
    fsync_after_insert = 1, fsync_part_directory = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS span_versions_of_spans TO span_versions{local} AS
SELECT
    project_id, trace_id, span_id, partition_id, version, record_ms, start_us, parent_id,
    if(
        tokens_prompt = 0 AND tokens_completion = 0 AND tokens_total = 0
            AND costs_prompt = 0 AND costs_completion = 0 AND costs_total = 0 AND errors = 0,
        '',
        concat(
            reinterpretAsFixedString(tokens_prompt), reinterpretAsFixedString(tokens_completion),
            reinterpretAsFixedString(tokens_total), reinterpretAsFixedString(costs_prompt),
            reinterpretAsFixedString(costs_completion), reinterpretAsFixedString(costs_total),
            reinterpretAsFixedString(errors), reinterpretAsFixedString(usage_is_own),
            reinterpretAsFixedString(cost_is_computed)
        )
    ) AS usage,
    members, response_bytes
FROM spans{local};

-- The versions in the order of their partitions: what the feed reads (ADR 0007). `start_us` leads to the row in
-- `spans` by primary key; if no row is there, it has been freed. `trace_id` says which trace has changed (ADR 0049).
CREATE TABLE IF NOT EXISTS span_arrivals{local}
(
    project_id                UUID,
    partition_id              LowCardinality(String),
    record_offset             UInt64                               CODEC(Delta, ZSTD(1)),
    span_index                UInt32                               CODEC(Delta, ZSTD(1)),
    start_us                  Int64                                CODEC(Delta, ZSTD(1)),
    stored_us                 Int64                                CODEC(Delta, ZSTD(1)),
    trace_id                  FixedString(16)                      CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}record_offset)
ORDER BY (project_id, partition_id, record_offset, span_index, trace_id)
SETTINGS {dedup_window_setting} = 1000, index_granularity = 4096,
    fsync_after_insert = 1, fsync_part_directory = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS span_arrivals_of_spans TO span_arrivals{local} AS
SELECT
    project_id,
    if(arrival_partition_id = '', partition_id, arrival_partition_id) AS partition_id,
    if(arrival_partition_id = '', intDiv(version % 4611686018427387904, 131072), arrival_offset) AS record_offset,
    span_index, start_us, stored_us, trace_id
FROM spans{local};

-- Events of spans that came as log records (contract §4.1, ADR 0046): one row for each, whether its span is stored or
-- not. `event` is the event as responses show it; `event_id` is a hash of its time, name, body and attributes, so an
-- event that is sent twice is one. Deletions are rows here as in `span_versions`, without `event`. Spans are named by the
-- id that responses show: the last half of an id of 128 bits, doubled.
--
-- What an annotation says about a span that it links to is a row about that span as well (ADR 0050): `source_…` name the
-- annotation, which is zeros for events, and `event` has its scores. Each version of an annotation has its own row, of
-- its partition and version, and one without scores says that the annotation no longer judges the span. An evaluation
-- that names a response instead of a span has the hash of the response id as trace id, and zeros as span id.
CREATE TABLE IF NOT EXISTS span_events{local}
(
    project_id                UUID,
    trace_id                  FixedString(16)                      CODEC(ZSTD(1)),
    span_id                   FixedString(16)                      CODEC(ZSTD(1)),
    event_id                  FixedString(16)                      CODEC(ZSTD(1)),
    partition_id              LowCardinality(String),
    version                   UInt64                               CODEC(T64, ZSTD(1)),
    span_index                UInt32                               CODEC(T64, ZSTD(1)),
    record_ms                 Int64                                CODEC(Delta, ZSTD(1)),
    time_us                   Int64                                CODEC(Delta, ZSTD(1)),
    stored_us                 Int64                                CODEC(Delta, ZSTD(1)),
    event                     String                               CODEC(ZSTD(1)),
    source_trace_id           FixedString(16)                      CODEC(ZSTD(1)),
    source_span_id            FixedString(16)                      CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}version)
PARTITION BY (toYYYYMM(fromUnixTimestamp64Micro(time_us)))
ORDER BY (project_id, trace_id, span_id, event_id, partition_id)
SETTINGS {dedup_window_setting} = 1000, index_granularity = 512, min_compress_block_size = 4096,
    fsync_after_insert = 1, fsync_part_directory = 1;

-- What annotations say, in the order of annotations: which spans each one judges (ADR 0053). Of each partition the last
-- verdict of an annotation about a span stays, or its deletion. Of two of one version it is the one that has scores.
CREATE TABLE IF NOT EXISTS judged_spans{local}
(
    project_id                UUID,
    source_trace_id           FixedString(16)                      CODEC(ZSTD(1)),
    source_span_id            FixedString(16)                      CODEC(ZSTD(1)),
    trace_id                  FixedString(16)                      CODEC(ZSTD(1)),
    span_id                   FixedString(16)                      CODEC(ZSTD(1)),
    partition_id              LowCardinality(String),
    version                   UInt64                               CODEC(T64, ZSTD(1)),
    has_scores                UInt8                                CODEC(ZSTD(1)),
    number                    UInt64                               CODEC(T64, ZSTD(1)),  -- version + has_scores
    record_ms                 Int64                                CODEC(Delta, ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}number)
ORDER BY (project_id, source_trace_id, source_span_id, trace_id, span_id, partition_id)
SETTINGS {dedup_window_setting} = 1000, index_granularity = 512, min_compress_block_size = 4096,
    fsync_after_insert = 1, fsync_part_directory = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS judged_spans_of_events TO judged_spans{local} AS
SELECT
    project_id, source_trace_id, source_span_id, trace_id, span_id, partition_id, version,
    event != '' AS has_scores, version + has_scores AS number, record_ms
FROM span_events{local}
WHERE source_trace_id != toFixedString('', 16);

-- Up to which offset each partition is stored, by project; the project id of zeros covers every record. Written after
-- the insert has returned, so everything up to the offset is visible; during an insert its rows become visible one
-- block at a time.
CREATE TABLE IF NOT EXISTS stored_through{local}
(
    project_id                UUID,
    partition_id              LowCardinality(String),
    through_offset            UInt64,
    record_ms                 Int64,
    stored_us                 Int64
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}through_offset)
ORDER BY (project_id, partition_id)
SETTINGS {dedup_window_setting} = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- What was rejected, with its original bytes (ADR 0004): one row for each rejection, however often its record is
-- delivered. A dead letter that is replayed or dropped is replaced by a row that is resolved and holds no bytes. The
-- others stay until then.
CREATE TABLE IF NOT EXISTS dead_letters{local}
(
    id                        String                               CODEC(ZSTD(1)),
    is_resolved               UInt8                                CODEC(ZSTD(1)),
    topic                     LowCardinality(String),
    partition                 UInt32                               CODEC(ZSTD(1)),
    record_offset             UInt64                               CODEC(ZSTD(1)),
    span_index                UInt32                               CODEC(ZSTD(1)),  -- 4294967295: not one span
    code                      LowCardinality(String),
    reason                    String                               CODEC(ZSTD(1)),
    created_us                Int64                                CODEC(ZSTD(1)),
    bytes_count               UInt64                               CODEC(ZSTD(1)),
    codes                     String                               CODEC(ZSTD(1)),  -- JSON; '' unless spans share it
    project                   String                               CODEC(ZSTD(1)),  -- '' if none is named
    envelope                  String                               CODEC(ZSTD(1)),  -- JSON: key and headers, as base64
    value                     String                               CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}is_resolved)
ORDER BY id
SETTINGS {dedup_window_setting} = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- Which traces are settled (contract §3.6, ADR 0049), in the order of the feed: run of the job, then trace. The rows of a
-- run are inserted after the run has been finished in Postgres; they may be inserted twice, and are the same then.
CREATE TABLE IF NOT EXISTS settled_traces{local}
(
    project_id                UUID,
    run                       UInt64                               CODEC(Delta, ZSTD(1)),
    trace_id                  FixedString(16)                      CODEC(ZSTD(1)),
    generation                UInt32                               CODEC(T64, ZSTD(1)),  -- from 1
    settled_us                Int64                                CODEC(Delta, ZSTD(1)),
    reason                    LowCardinality(String)               -- complete or incomplete
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}run)
ORDER BY (project_id, run, trace_id)
SETTINGS {dedup_window_setting} = 1000, index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1;

-- The same in the order of traces: how often and in which run a trace settled for the last time. Merges keep one row of a
-- trace. It stays when the trace is deleted, which may be sent again.
CREATE TABLE IF NOT EXISTS trace_settlings{local}
(
    project_id                UUID,
    trace_id                  FixedString(16)                      CODEC(ZSTD(1)),
    run                       SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(1)),
    complete_run              SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(1)),  -- the last as complete, or 0
    generation                SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(1))
)
ENGINE = {replicated}AggregatingMergeTree({replica_names})
ORDER BY (project_id, trace_id)
SETTINGS {dedup_window_setting} = 1000, index_granularity = 512, min_compress_block_size = 4096,
    fsync_after_insert = 1, fsync_part_directory = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS trace_settlings_of_traces TO trace_settlings{local} AS
SELECT project_id, trace_id, run, if(reason = 'complete', run, 0) AS complete_run, generation
FROM settled_traces{local};
