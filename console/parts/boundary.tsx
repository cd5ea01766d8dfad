import { Component, type ReactNode } from 'react'
import { Fault } from './fault.tsx'

/** An error while drawing takes the place of the part that it is in, and leaves the rest of the console. */
export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null }

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error }
  }

  override render(): ReactNode {
    const { error } = this.state
    if (error === null) return this.props.children
    return <Fault error={error} retry={() => window.location.reload()} />
  }
}
