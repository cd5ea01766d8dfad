import { Modal } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { askAll, urlOf } from '../../api/ask.ts'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { oneLine, visible } from '../../parts/visible.ts'
import { bytesText } from '../../parts/when.ts'
import { Ago } from '../../parts/when.tsx'
import type { Job, JobFile } from './job.ts'

/** The files in the output of a job, with type and size. */
export function JobFiles({ job, onClose }: { job: Job; onClose: () => void }) {
  const asked = useJobFiles(job.id)
  return (
    <Modal opened onClose={onClose} title="Files of the job" size="lg">
      <p className="dialog-text">
        <code>{job.public_id}</code> of {visible(job.model ?? 'an unknown model')}
      </p>
      <Loaded asked={asked} height={80} lines={2}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="It has no files">Its output is text, or none. Its client has all of it.</Empty>
          ) : (
            <ul className="rows rows-boxed" aria-label="Files">
              {data.map((file) => (
                <FileRow key={file.url} file={file} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Modal>
  )
}

/** Each view is in the change log, so that nothing is asked for again while the page is open. */
const useJobFiles = (id: string) => {
  const path = `/jobs/${encodeURIComponent(id)}/files`
  return useQuery<{ data: JobFile[] }, Error>({
    queryKey: ['files of a job', id],
    queryFn: ({ signal }) => askAll<JobFile>(path, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    meta: { http: urlOf(path) },
  })
}

function FileRow({ file: { url, state, media_type, bytes, expires_at } }: { file: JobFile }) {
  return (
    <li className="rows-link">
      <span className="rows-main" title={state === 'elsewhere' ? visible(url) : undefined}>
        {media_type === null ? oneLine(url, 100) : oneLine(media_type, 60)}
        <span className="dim">
          {bytes !== null && `, ${bytesText(bytes)}`}
          {expires_at !== null && (
            <>
              , expires <Ago at={expires_at} />
            </>
          )}
        </span>
      </span>
      <FileLink url={url} state={state} />
    </li>
  )
}

/** Files of other hosts are never loaded by the page itself. */
function FileLink({ url, state }: Pick<JobFile, 'url' | 'state'>) {
  if (state === 'expired') return <span className="dim">expired</span>
  if (state === 'inline')
    return (
      <a href={url} download="output" className="link">
        Save
      </a>
    )
  // A client may know this server by another name.
  const address = state === 'stored' ? new URL(url).pathname : url.startsWith('https://') ? url : undefined
  if (address === undefined) return <span className="dim">not https</span>
  return (
    <a href={address} target="_blank" rel="noreferrer" className="link">
      {state === 'stored' ? 'Open' : "Open at its provider's"}
    </a>
  )
}
