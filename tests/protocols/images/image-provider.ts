import { deflateSync, crc32 } from 'node:zlib'

/**
 * A provider of images with three APIs: images, chat completions and generateContent. The name of the model determines
 * its behaviour.
 */

const chunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, sum])
}

/** A gray PNG of this size and shade, in base64. */
export function png(width: number, height: number, shade = 0): string {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width)
  header.writeUInt32BE(height, 4)
  header[8] = 8
  const rows = Buffer.concat(
    Array.from({ length: height }, () => Buffer.concat([Buffer.from([0]), Buffer.alloc(width, shade)])),
  )
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ]).toString('base64')
}

export const PNG = png(3, 2)
/** The first bytes of a JPEG. */
export const JPEG = Buffer.from('ffd8ffe000104a464946000101000001', 'hex').toString('base64')

type Json = Record<string, any>
export type ReceivedRequest = { path: string; body: Json }

export type ImageProvider = { url: string; received: ReceivedRequest[]; stop(): Promise<void> }

export const USAGE = {
  input_tokens: 11,
  output_tokens: 400,
  total_tokens: 411,
  input_tokens_details: { text_tokens: 11, image_tokens: 0 },
}
const GOOGLE_USAGE = {
  promptTokenCount: 7,
  candidatesTokenCount: 1300,
  totalTokenCount: 1307,
  candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 1290 }],
}

export function startImageProvider(): ImageProvider {
  const received: ReceivedRequest[] = []
  const counts = new Map<string, number>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request): Promise<Response> {
      const { pathname, origin } = new URL(request.url)
      if (request.method === 'GET')
        return pathname === '/images/1.png'
          ? new Response(Buffer.from(PNG, 'base64'), { headers: { 'content-type': 'image/png' } })
          : new Response('<html>Nothing</html>', { headers: { 'content-type': 'text/html' } })
      const body = (await request.json()) as Json
      received.push({ path: pathname, body })
      const script = (/models\/([^:]+):/.exec(pathname)?.[1] ?? body.model) as string
      const calls = (counts.get(script) ?? 0) + 1
      counts.set(script, calls)
      if (script.startsWith('slow')) await Bun.sleep(300)
      const status = Number(/^refuses-(\d+)$/.exec(script)?.[1] ?? 200)
      if (status !== 200 || (script === 'every-other' && calls % 2 === 0))
        return Response.json(
          {
            error: { message: 'Not this one', type: 'invalid_request_error', code: 'moderation_blocked', param: null },
          },
          { status: status === 200 ? 500 : status },
        )
      if (pathname.endsWith('/chat/completions'))
        return Response.json(
          chatResponse(
            script,
            script === 'web-page'
              ? `data:text/html;base64,${btoa('<script>alert(1)</script>')}`
              : `data:image/png;base64,${PNG}`,
          ),
        )
      return pathname.includes(':')
        ? generateContentResponse(script, calls, pathname.includes(':stream'))
        : imagesResponse(script, body, origin)
    },
  })
  return { url: server.url.origin, received, stop: () => server.stop(true) }
}

function imagesResponse(script: string, { n = 1, stream }: Json, origin: string): Response {
  const data = (image: Json): Json[] => Array.from({ length: n as number }, () => image)
  switch (script) {
    case 'unmetered':
      return Response.json({ data: data({ b64_json: PNG }) })
    case 'urls':
      return Response.json({
        created: 5,
        data: data({ url: `${origin}/images/1.png`, revised_prompt: 'A grey wall' }),
        usage: USAGE,
      })
    case 'web-page':
      return Response.json({ created: 5, data: data({ url: `${origin}/page` }), usage: USAGE })
    case 'private-url':
      return Response.json({ created: 5, data: data({ url: 'http://169.254.169.254/latest/meta-data' }), usage: USAGE })
    case 'base64-and-urls':
      return Response.json({
        created: 5,
        data: [
          { b64_json: PNG, url: `${origin}/images/1.png` },
          { b64_json: '', url: `${origin}/images/1.png` },
          { b64_json: null, url: `data:image/png;base64,${PNG}` },
        ],
        usage: USAGE,
      })
    case 'svg':
      return Response.json({
        created: 5,
        data: data({ b64_json: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>').toString('base64') }),
        usage: USAGE,
      })
    case 'text':
      return Response.json({
        created: 5,
        data: data({ b64_json: Buffer.from('<script>alert(1)</script>').toString('base64') }),
        usage: USAGE,
      })
    case 'web-page-inline':
      return Response.json({
        created: 5,
        data: data({ url: 'data:text/html,<script>alert(1)</script>' }),
        usage: USAGE,
      })
    case 'flood':
      return Response.json({ created: 5, data: Array.from({ length: 1_000 }, () => ({ b64_json: PNG })), usage: USAGE })
    case 'flood-of-urls':
      return Response.json({
        created: 5,
        data: Array.from({ length: 1_000 }, () => ({ url: `${origin}/images/1.png` })),
        usage: USAGE,
      })
    case 'no-images':
      return Response.json({ created: 5, data: [] })
  }
  if (stream !== true)
    return Response.json({
      created: 5,
      data: data({ b64_json: PNG, revised_prompt: 'A grey wall' }),
      size: '3x2',
      quality: 'high',
      usage: USAGE,
    })
  const properties = { created_at: 5, size: '3x2', quality: 'high', background: 'opaque', output_format: 'png' }
  const frames = [
    { type: 'image_generation.partial_image', b64_json: JPEG, partial_image_index: 0, ...properties },
    { type: 'image_generation.completed', b64_json: PNG, usage: USAGE, ...properties },
  ]
  return new Response(frames.map((frame) => `event: ${frame.type}\ndata: ${JSON.stringify(frame)}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  })
}

function generateContentResponse(script: string, calls: number, stream: boolean): Response {
  const parts =
    script === 'text-only'
      ? [{ text: 'I would rather not draw this.' }]
      : script === 'blocked'
        ? []
        : [
            { text: 'Here it is.' },
            ...Array.from({ length: script === 'pair' ? 2 : 1 }, () => ({
              inlineData: { mimeType: 'image/png', data: png(3, 2, calls) },
            })),
          ]
  const response = {
    responseId: 'g',
    modelVersion: 'm',
    candidates: [
      {
        index: 0,
        content: { role: 'model', parts },
        finishReason: script === 'blocked' ? 'IMAGE_SAFETY' : 'STOP',
      },
    ],
    usageMetadata: GOOGLE_USAGE,
  }
  return stream
    ? new Response(`data: ${JSON.stringify(response)}\n\n`, { headers: { 'content-type': 'text/event-stream' } })
    : Response.json(response)
}

const chatResponse = (script: string, url: string): Json => ({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: script,
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: '', images: [{ type: 'image_url', image_url: { url } }] },
      finish_reason: 'stop',
    },
  ],
  usage: {
    prompt_tokens: 7,
    completion_tokens: 1300,
    total_tokens: 1307,
    completion_tokens_details: { image_tokens: 1290 },
  },
})
