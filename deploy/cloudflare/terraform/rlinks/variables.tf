variable "environment" {
  description = "dev or prod. Part of every name, so that the two never share anything."
  type        = string

  validation {
    condition     = contains(["dev", "prod"], var.environment)
    error_message = "The environment is dev or prod."
  }
}

variable "profile" {
  description = "fabric: links in KV, written by rmax. edge: links in D1, changed through the Worker's API."
  type        = string

  validation {
    condition     = contains(["fabric", "edge"], var.profile)
    error_message = "The profile is fabric or edge."
  }
}

variable "preset" {
  description = "The policy of links: fabric, edge, platform or team."
  type        = string

  validation {
    condition     = contains(["fabric", "edge", "platform", "team"], var.preset)
    error_message = "The preset is fabric, edge, platform or team."
  }
}

variable "account_id" {
  description = "The Cloudflare account."
  type        = string
}

variable "zone_id" {
  description = "The zone of the hostname."
  type        = string
}

variable "hostname" {
  description = "The host short links live on."
  type        = string
}

variable "more_hostnames" {
  description = "Further hosts that count as ours."
  type        = list(string)
  default     = []
}

variable "more_routes" {
  description = "Further route patterns of the zone that lead to the Worker."
  type        = list(string)
  default     = []
}

variable "hash_key" {
  description = "The key under which user agents are hashed. Any long random text; a new one makes old and new hashes differ."
  type        = string
  sensitive   = true
}

variable "admin_token" {
  description = "Opens the API of profile edge. Random text of 32 characters at least."
  type        = string
  sensitive   = true
  default     = ""
  validation {
    condition     = var.admin_token == "" || length(var.admin_token) >= 32
    error_message = "An admin token has 32 characters at least: openssl rand -hex 32 makes one."
  }
}

variable "analytics_token" {
  description = "An API token with Account Analytics: Read, for profile edge."
  type        = string
  sensitive   = true
  default     = ""
}
