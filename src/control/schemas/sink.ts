// A subscription's sink: where to, and how the hub shows there who it is. What is a secret in it reads back as the mask.
import { Type } from 'typebox'
import { SECRET_MASK } from '../../event/sink-secrets.ts'
import { DurationText, Nullable, told } from './common.ts'

const closed = { additionalProperties: false }
const writeOnly = `Write-only: reads back as \`${SECRET_MASK}\`.`

const Timeout = DurationText('1s', '60s')
const Kind = Type.Enum(['webhook'])

const HEADER_VALUE = 'a text, or {"value": "…", "secret": true}'
const SecretHeader = Type.Object(
  { value: Type.String({ minLength: 1, description: writeOnly }), secret: Type.Literal(true, { title: 'true' }) },
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
  Type.Literal(kind, { title: 'one of bearer, basic, api_key, oauth2, mtls' })

const Bearer = Type.Object({ kind: AuthKind('bearer'), token: Secret('a token') }, closed)
const Basic = Type.Object(
  {
    kind: AuthKind('basic'),
    username: Type.String({
      pattern: '^[^:\\x00-\\x1f\\x7f]{0,255}$',
      title: 'a user name of at most 255 characters, without a colon',
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
    header: Type.String({ description: 'The name of the header that carries it; by the rules of `headers`.' }),
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
    token_url: Type.String({ description: 'By the rules of `url`: the hub calls it like a receiver.' }),
    client_id: ClientText('a client id', 1024),
    client_secret: told(ClientText('a client secret', 4096), writeOnly),
    scope: Type.Optional(
      Nullable(
        Type.String({
          pattern: '^(?=.{1,1024}$)[\\x21\\x23-\\x5b\\x5d-\\x7e]+( [\\x21\\x23-\\x5b\\x5d-\\x7e]+)*$',
          title: 'a scope: words with one space between them, of at most 1024 characters',
          examples: ['events:write'],
        }),
      ),
    ),
    audience: Type.Optional(Nullable(ClientText('an audience', 1024))),
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
    certificate: {
      ...Pem('a certificate and those that lead to its authority', 32),
      description: "The hub's own first.",
    },
    private_key: told(Pem('a private key', 16), `Not encrypted. ${writeOnly}`),
    ca: Type.Optional(
      Nullable({
        ...Pem('certificates', 32),
        description: "Of the authorities that the receiver's certificate is trusted by, in place of the public ones.",
      }),
    ),
  },
  {
    ...closed,
    description:
      'A client certificate, shown in the TLS handshake. A key or token beside it goes into a secret header.',
  },
)

const Auth = Type.Union([Bearer, Basic, ApiKey, OAuth2, MutualTls], {
  description: 'How the hub authenticates at the receiver, beside the signatures. Null: not at all.',
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
    url: Type.String(),
    headers: Type.Optional(Headers),
    auth: Type.Optional(Nullable(Auth)),
    timeout: Type.Optional(Timeout),
  },
  closed,
)

/** Of a merge patch: what is merged is checked as a `NewSink`. */
export const SinkPatch = Type.Object(
  {
    kind: Type.Optional(Kind),
    url: Type.Optional(Type.String()),
    headers: Type.Optional(
      Nullable(
        Type.Record(
          Type.String(),
          Nullable(Type.Union([Type.String(), Type.Partial(SecretHeader)], { title: HEADER_VALUE })),
        ),
      ),
    ),
    auth: Type.Optional(
      Nullable(
        Type.Object(
          { kind: Type.Optional(Type.String()) },
          { description: 'Fields of the kind that it has, or another kind with all of its fields. Null removes it.' },
        ),
      ),
    ),
    timeout: Type.Optional(Nullable(Timeout)),
  },
  closed,
)

/** As it reads back. */
export const SinkSchema = Type.Object({
  kind: Type.Literal('webhook'),
  url: Type.String(),
  headers: Headers,
  auth: Nullable(Auth),
  timeout: Type.String(),
})
