// A subscription's sink: where to, and how the hub shows there who it is. What is a secret in it reads back as the mask.
import { Type } from 'typebox'
import { SECRET_MASK } from '../../event/sink-secrets.ts'
import { DurationText, Nullable, Text, told } from './common.ts'

const closed = { additionalProperties: false }
const writeOnly = `Write-only: reads back as \`${SECRET_MASK}\`.`

const Timeout = told(DurationText('1s', '60s'), 'How long an attempt may take, until the whole answer is there.')
const Kind = Type.Enum(['webhook'], { description: 'webhook: an HTTP POST to `url`.' })
const Url = Type.String({
  description:
    'Where to: https, without credentials in it, and to no private address (docs/outbound.md has the rules).',
  examples: ['https://core.example.com/hooks/loans'],
})

const HEADER_VALUE = 'a text, or {"value": "…", "secret": true}'
const SecretHeader = Type.Object(
  {
    value: Type.String({ minLength: 1, description: writeOnly }),
    secret: Type.Literal(true, { title: 'true', description: 'The value is kept sealed, and never shown.' }),
  },
  closed,
)
const HeaderValue = Type.Union([Type.String(), SecretHeader], { title: HEADER_VALUE })
const Headers = Type.Record(Type.String(), HeaderValue, {
  description: 'Added to every request.',
  examples: [{ 'x-env': 'prod', 'x-token': { value: 's3cr3t', secret: true } }],
})

/** Visible characters of ASCII: what `pattern` counts in full. */
const Visible = (noun: string, maxLength: number) =>
  Type.String({
    pattern: `^[\\x21-\\x7e]{1,${maxLength}}$`,
    title: `${noun} of 1 to ${maxLength} visible ASCII characters`,
  })
const Secret = (noun: string) => told(Visible(noun, 4096), writeOnly)

const AuthKind = <T extends string>(kind: T) =>
  Type.Literal(kind, {
    title: 'one of bearer, basic, api_key, oauth2, mtls',
    description: `Tells it from the other kinds: \`${kind}\`.`,
  })

const Bearer = Type.Object({ kind: AuthKind('bearer'), token: Secret('a token') }, closed)
const Basic = Type.Object(
  {
    kind: AuthKind('basic'),
    username: Type.String({
      pattern: '^[^:\\x00-\\x1f\\x7f]{0,255}$',
      title: 'a user name of at most 255 characters, without a colon',
      description: 'The user name of HTTP basic authentication.',
    }),
    password: Type.String({
      pattern: '^[^\\x00-\\x1f\\x7f]{1,1024}$',
      title: 'a password of 1 to 1024 characters, without control characters',
      description: writeOnly,
    }),
  },
  closed,
)
const ApiKey = Type.Object(
  {
    kind: AuthKind('api_key'),
    header: Text('The name of the header that carries it; by the rules of `headers`.'),
    value: Secret('a value'),
  },
  closed,
)

/** By RFC 6749, appendix A; visible characters and the space. */
const ClientText = (noun: string, maxLength: number) =>
  Type.String({
    pattern: `^[\\x20-\\x7e]{1,${maxLength}}$`,
    title: `${noun} of 1 to ${maxLength} printable ASCII characters`,
  })
const OAuth2 = Type.Object(
  {
    kind: AuthKind('oauth2'),
    token_url: Text('Where tokens are had; by the rules of `url`: the hub calls it like a receiver.'),
    client_id: told(ClientText('a client id', 1024), 'Who the hub is there.'),
    client_secret: told(ClientText('a client secret', 4096), writeOnly),
    scope: Type.Optional(
      Nullable(
        Type.String({
          pattern: '^(?=.{1,1024}$)[\\x21\\x23-\\x5b\\x5d-\\x7e]+( [\\x21\\x23-\\x5b\\x5d-\\x7e]+)*$',
          title: 'a scope: words with one space between them, of at most 1024 characters',
          examples: ['events:write'],
        }),
        'What the token is asked to allow; null: not said.',
      ),
    ),
    audience: Type.Optional(Nullable(ClientText('an audience', 1024), 'Whom the token is for; null: not said.')),
    auth_method: Type.Optional(
      Type.Enum(['client_secret_basic', 'client_secret_post'], {
        default: 'client_secret_basic',
        description: 'Whether the client secret is sent in the `authorization` header or in the body.',
      }),
    ),
  },
  {
    ...closed,
    description: 'Client credentials grant (RFC 6749): each request carries a bearer token that is had with them.',
  },
)

const Pem = (noun: string, maxKiB: number) =>
  Type.String({ minLength: 1, maxLength: maxKiB * 1024, title: `${noun} in PEM, of at most ${maxKiB} KiB` })
const MutualTls = Type.Object(
  {
    kind: AuthKind('mtls'),
    certificate: told(
      Pem('a certificate and those that lead to its authority', 32),
      "The certificate that the hub shows, and those that lead to its authority: the hub's own first.",
    ),
    private_key: told(Pem('a private key', 16), `Of the certificate, not encrypted. ${writeOnly}`),
    ca: Type.Optional(
      Nullable(
        Pem('certificates', 32),
        "Of the authorities that the receiver's certificate is trusted by, in place of the public ones. Null: the public ones.",
      ),
    ),
  },
  {
    ...closed,
    description:
      'A client certificate, shown in the TLS handshake. A key or token beside it goes into a secret header.',
  },
)

const AUTH = 'How the hub authenticates at the receiver, beside the signatures. Null: not at all.'
const Auth = Type.Union([Bearer, Basic, ApiKey, OAuth2, MutualTls], {
  examples: [
    { kind: 'bearer', token: 's3cr3t' },
    { kind: 'basic', username: 'hub', password: 's3cr3t' },
    { kind: 'api_key', header: 'x-api-key', value: 's3cr3t' },
    { kind: 'oauth2', token_url: 'https://login.example.com/oauth2/token', client_id: 'hub', client_secret: 's3cr3t' },
    { kind: 'mtls', certificate: '-----BEGIN CERTIFICATE-----…', private_key: '-----BEGIN PRIVATE KEY-----…' },
  ],
})

/** Of a creation. */
export const NewSink = Type.Object(
  {
    kind: Kind,
    url: Url,
    headers: Type.Optional(Headers),
    auth: Type.Optional(Nullable(Auth, AUTH)),
    timeout: Type.Optional(Timeout),
  },
  closed,
)

/** Of a merge patch: what is merged is checked as a `NewSink`. */
export const SinkPatch = Type.Object(
  {
    kind: Type.Optional(Kind),
    url: Type.Optional(Url),
    headers: Type.Optional(
      Nullable(
        Type.Record(
          Type.String(),
          Nullable(Type.Union([Type.String(), Type.Partial(SecretHeader)], { title: HEADER_VALUE })),
        ),
        'What is to be changed in them, by the name of the header: null removes one. Null in place of them removes all.',
      ),
    ),
    auth: Type.Optional(
      Nullable(
        Type.Object({ kind: Type.Optional(Text('The kind; none given: the one that it has.')) }),
        'Fields of the kind that it has, or another kind with all of its fields. Null removes it.',
      ),
    ),
    timeout: Type.Optional(Nullable(Timeout, 'How long an attempt may take; null: 30s again.')),
  },
  closed,
)

/** As it reads back. */
export const SinkSchema = Type.Object(
  {
    kind: Type.Literal('webhook', { description: 'An HTTP POST to `url`.' }),
    url: Text('Where to, as it was written.'),
    headers: Headers,
    auth: Nullable(Auth, AUTH),
    timeout: Text('How long an attempt may take, such as 30s.'),
  },
  { description: 'Where to, and how. What is a secret in it reads back as a mask.' },
)
